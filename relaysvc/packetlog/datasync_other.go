//go:build !linux

package packetlog

import "os"

func datasync(f *os.File) error { return f.Sync() }
