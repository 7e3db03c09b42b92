//go:build !linux

package main

import "syscall"

func endWithParent(*syscall.SysProcAttr) {}

func dieWithParent() {}

func checkDisk(string) error { return nil }
