// SPDX-License-Identifier: GPL-2.0-only
// embednfs's file system in memory, on one address (its own program takes all): ADDRESS:PORT
use embednfs::{MemFs, NfsServer};

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let address = std::env::args().nth(1).expect("ADDRESS:PORT");
    NfsServer::new(MemFs::new()).listen(&address).await
}
