package main

import (
	"gvisor.dev/gvisor/pkg/context"
	"gvisor.dev/gvisor/pkg/sentry/kernel/auth"
	"gvisor.dev/gvisor/pkg/sentry/vfs"
)

// file is an open file like gVisor's own: a vfs.FileDescription and its implementation, in one
// allocation. The object is the 64 bytes at the end.
type file struct {
	vfsfd vfs.FileDescription
	vfs.FileDescriptionDefaultImpl
	vfs.DentryMetadataFileDescriptionImpl
	vfs.NoLockFD

	value uint64
	_     [7]uint64
}

// Release is called when the last reference is dropped. The collector frees the memory.
func (*file) Release(context.Context) {}

// place is the dentry of all files, in gVisor's anonymous file system. It exists beforehand, like
// that of an existing file.
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

// newFile creates a file with one reference.
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
