// SPDX-License-Identifier: GPL-2.0-only
// rclone with what `rclone serve nfs` of a local directory needs, and no other backend or command.
package main

import (
	_ "github.com/rclone/rclone/backend/local"
	"github.com/rclone/rclone/cmd"
	_ "github.com/rclone/rclone/cmd/serve/nfs"
)

func main() { cmd.Main() }
