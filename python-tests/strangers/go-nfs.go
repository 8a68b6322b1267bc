// SPDX-License-Identifier: GPL-2.0-only
// go-nfs on a real directory, with the 1,024 handles of its own example: DIRECTORY ADDRESS:PORT
package main

import (
	"log"
	"net"
	"os"
	"time"

	"github.com/go-git/go-billy/v5"
	"github.com/go-git/go-billy/v5/osfs"
	nfs "github.com/willscott/go-nfs"
	"github.com/willscott/go-nfs/helpers"
)

const handles = 1024

// SETATTR needs billy.Change, which billy's osfs does not have.
type directory struct{ billy.Filesystem }

func (d directory) path(name string) string { return d.Join(d.Root(), name) }

func (d directory) Chmod(name string, mode os.FileMode) error { return os.Chmod(d.path(name), mode) }

func (d directory) Chown(name string, uid, gid int) error { return os.Chown(d.path(name), uid, gid) }

func (d directory) Lchown(name string, uid, gid int) error { return os.Lchown(d.path(name), uid, gid) }

func (d directory) Chtimes(name string, accessed, modified time.Time) error {
	return os.Chtimes(d.path(name), accessed, modified)
}

func main() {
	listener, err := net.Listen("tcp", os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	handler := helpers.NewNullAuthHandler(directory{osfs.New(os.Args[1])})
	log.Fatal(nfs.Serve(listener, helpers.NewCachingHandler(handler, handles)))
}
