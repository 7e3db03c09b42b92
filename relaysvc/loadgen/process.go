package loadgen

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// ticksPerSecond is the unit of CPU times in /proc, the same on every Linux
// that Go runs on.
const ticksPerSecond = 100

// ownCPU returns the processor time of this process in seconds.
func ownCPU() float64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // it has no way to fail
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// processCPU returns the processor time of a process on this machine in
// seconds, or -1 where /proc does not tell.
func processCPU(pid int) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return -1
	}
	// The second field is the name in brackets, which may hold anything.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 13 {
		return -1
	}
	user, err1 := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	if err1 != nil || err2 != nil {
		return -1
	}
	return float64(user+system) / ticksPerSecond
}

// residentBytes returns the memory of a process on this machine that is in
// RAM, or -1 where /proc does not tell.
func residentBytes(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return -1
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return -1
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return -1
	}
	return pages * int64(os.Getpagesize())
}
