package main

import (
	"gvisor.dev/gvisor/pkg/context"
	"gvisor.dev/gvisor/pkg/sentry/kernel/auth"
	"gvisor.dev/gvisor/pkg/sentry/vfs"
)

// file is an open file as gVisor's own are: a vfs.FileDescription and what implements it, in one
// allocation. The object is the 64 bytes in the end.
type file struct {
	vfsfd vfs.FileDescription
	vfs.FileDescriptionDefaultImpl
	vfs.DentryMetadataFileDescriptionImpl
	vfs.NoLockFD

	value uint64
	_     [7]uint64
}

// Release is called when the last reference goes. The collector frees the memory.
func (*file) Release(context.Context) {}

// place is where files are opened: a dentry of gVisor's anonymous file system, which is there
// already, as a file's is that is opened again.
type place struct {
	ctx   context.Context
	vd    vfs.VirtualDentry
	creds *auth.Credentials
}

func newPlace() (*place, error) {
	ctx := context.Background()
	var vfsObj vfs.VirtualFilesystem
	if err := vfsObj.Init(ctx); err != nil {
		return nil, err
	}
	return &place{
		ctx:   ctx,
		vd:    vfsObj.NewAnonVirtualDentry("[object]"),
		creds: auth.NewAnonymousCredentials(),
	}, nil
}

// newFile makes a file with one reference.
func (p *place) newFile(value uint64) (*vfs.FileDescription, error) {
	f := &file{value: value}
	options := vfs.FileDescriptionOptions{UseDentryMetadata: true}
	err := f.vfsfd.Init(f, 0, p.creds, p.vd.Mount(), p.vd.Dentry(), &options)
	return &f.vfsfd, err
}

// valueOf reads the object.
func valueOf(fd *vfs.FileDescription) uint64 {
	return fd.Impl().(*file).value
}
