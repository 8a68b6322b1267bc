# SPDX-License-Identifier: GPL-2.0-only
"""When the kernel's NFS client connects again: in the guest of ./nfsmulti lab kernel.

With a file and the seconds for which the servers are away, back, and away again it measures, and
writes when SYNs came. With the file alone it prints the gaps between connects.
"""

import json, os, select, socket, struct, subprocess, sys, threading, time

CASES = ["reset", "syndrop", "cut", "fin", "acceptfin", "acceptreset"]
VERSIONS = ["3", "4.1"]
RELAY = {"fin", "acceptfin", "acceptreset"}
now = time.monotonic


def sh(*argv, **kw):
    return subprocess.run(argv, check=True, **kw)


class Relay(threading.Thread):
    """Forwards a port to the server; mode: run, refuse (no listener), acceptfin, acceptreset."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port, self.mode, self.wanted = port, "run", "run"
        self.pairs = {}
        self.listener = None
        self.listen()

    def listen(self):
        self.listener = socket.create_server(("0.0.0.0", self.port), backlog=64)

    def shut(self, sock, reset):
        if reset:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.close()

    def switch(self):
        self.mode = self.wanted
        if self.mode == "run":
            if self.listener is None:
                self.listen()
            return
        if self.mode == "refuse":
            self.listener.close()
            self.listener = None
        done = set()
        for a, b in list(self.pairs.items()):
            for one in (a, b):
                if one not in done:
                    done.add(one)
                    self.shut(one, self.mode == "acceptreset")
        self.pairs = {}

    def run(self):
        while True:
            if self.mode != self.wanted:
                self.switch()
            socks = list(self.pairs) + ([self.listener] if self.listener else [])
            ready, _, _ = select.select(socks, [], [], 0.1)
            for sock in ready:
                if sock is self.listener:
                    client, _ = sock.accept()
                    if self.mode != "run":
                        self.shut(client, self.mode == "acceptreset")
                        continue
                    up = socket.create_connection(("127.0.0.1", 2049))
                    self.pairs[client], self.pairs[up] = up, client
                elif sock in self.pairs:
                    other = self.pairs[sock]
                    try:
                        data = sock.recv(1 << 16)
                        if data:
                            other.sendall(data)
                    except OSError:
                        data = b""
                    if not data:
                        for one in (sock, other):
                            self.pairs.pop(one, None)
                            one.close()


class Client:
    def __init__(self, n, case, version):
        self.n, self.case, self.version = n, case, version
        self.port = 3000 + n if case in RELAY else 2049
        self.relay = None
        self.syns, self.marks, self.progress = [], [], []
        sh("ip", "netns", "add", f"c{n}")
        sh("ip", "link", "add", f"s{n}", "type", "veth", "peer", "name", f"c{n}", "netns", f"c{n}")
        sh("ip", "addr", "add", f"10.9.{n}.1/24", "dev", f"s{n}")
        sh("ip", "link", "set", f"s{n}", "up")
        for words in (f"addr add 10.9.{n}.2/24 dev c{n}", f"link set c{n} up", "link set lo up"):
            sh("ip", "-n", f"c{n}", *words.split())
        if case in RELAY:
            self.relay = Relay(self.port)
            self.relay.start()
        os.makedirs(f"/mnt/c{n}", exist_ok=True)
        source = f"10.9.{n}.1:" + ("/export" if version == "3" else "/")
        options = f"vers={version},proto=tcp,port={self.port}" + (
            ",nolock" if version == "3" else ""
        )
        inner = (
            f"hostname c{n}; exec nsenter --net=/run/netns/c{n} sh -c '"
            f"mount -t nfs -o {options} {source} /mnt/c{n} && exec {sys.executable} {__file__} --io /mnt/c{n}/f{n}'"
        )
        self.io = subprocess.Popen(["unshare", "--uts", "sh", "-c", inner], stdout=subprocess.PIPE)
        threading.Thread(target=self.follow, daemon=True).start()

    def follow(self):
        for _ in self.io.stdout:
            self.progress.append(now())

    def nft(self, on):
        if not on:
            sh("nft", "delete", "table", "inet", f"t{self.n}")
            return
        what = f"iifname s{self.n} tcp dport {self.port}"
        syn = "tcp flags & (syn|ack) == syn"
        rules = {
            "reset": f"{what} reject with tcp reset",
            "syndrop": f"{what} {syn} drop\n{what} reject with tcp reset",
            "cut": f"{what} drop",
        }[self.case]
        sh(
            "nft",
            "-f",
            "-",
            text=True,
            input=f"table inet t{self.n} {{\nchain in {{ type filter hook input priority 0;\n{rules}\n}}\n}}\n",
        )

    def fault(self, on):
        self.marks.append((now(), on))
        if self.relay:
            bad = "refuse" if self.case == "fin" else self.case
            self.relay.wanted = bad if on else "run"
        else:
            self.nft(on)


def sniff(clients):
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    by = {f"s{c.n}": c for c in clients}
    while True:
        data, (dev, _, kind, *_) = sock.recvfrom(128)
        client = by.get(dev)
        if not client or kind != 0 or data[9] != 6:
            continue
        at = (data[0] & 15) * 4
        sport, dport, seq = struct.unpack_from("!HHI", data, at)
        if dport == client.port and data[at + 13] & 0x12 == 2:
            client.syns.append((now(), sport, seq))


def io(path):
    fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_SYNC, 0o644)
    while True:
        os.pwrite(fd, b"x" * 4096, 0)
        sys.stdout.write("w\n")
        sys.stdout.flush()
        time.sleep(0.2)


def main():
    first, rest, second = (float(x) for x in sys.argv[2:5])
    clients = [
        Client(n, case, version)
        for n, (case, version) in enumerate((c, v) for c in CASES for v in VERSIONS)
    ]
    threading.Thread(target=sniff, args=(clients,), daemon=True).start()
    end = now() + 120
    while any(len(c.progress) < 5 for c in clients) and now() < end:
        time.sleep(0.5)
    for c in clients:
        print(c.case, c.version, "io", len(c.progress), flush=True)
    t0 = now()
    for seconds, on in ((first, True), (rest, False), (second, True)):
        for c in clients:
            c.fault(on)
        time.sleep(seconds)
        print("phase", on, round(now() - t0), [len(c.progress) for c in clients], flush=True)
    out = [
        {
            "case": c.case,
            "version": c.version,
            "syns": c.syns,
            "marks": c.marks,
            "progress": c.progress,
        }
        for c in clients
    ]
    with open(sys.argv[1], "w") as f:
        json.dump(out, f)
    print(os.uname().release)
    os._exit(0)


def show(name):
    with open(name) as file:
        clients = json.load(file)
    for client in clients:
        ends = [at for at, away in client["marks"] if not away] + [float("inf")]
        begins = [at for at, away in client["marks"] if away]
        for begin, end in zip(begins, ends):
            first = {}
            for at, port, sequence in client["syns"]:
                if begin <= at < end:
                    first.setdefault((port, sequence), at - begin)
            times = sorted(first.values())
            gaps = [round(after - before, 1) for before, after in zip(times, times[1:])]
            print(client["case"], client["version"], "first", times[:1], "gaps", gaps)


if sys.argv[1] == "--io":
    io(sys.argv[2])
elif len(sys.argv) == 2:
    show(sys.argv[1])
else:
    main()
