//go:build !linux

package handler

import "syscall"

// processGroup makes a run the leader of a group of its own.
func processGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// lockedToThread runs f.
func lockedToThread(f func()) { f() }
