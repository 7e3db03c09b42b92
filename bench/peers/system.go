package main

import (
	"syscall"

	"github.com/ace-toolkit/ace/core/suite"
)

// flushDisk waits until what was written has reached the disk.
func flushDisk() { syscall.Sync() }

// openFileLimit returns how many files a process may have open. Go programs
// raise their own limit that far when they start.
func openFileLimit() int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 1024
	}
	return int(min(limit.Max, 1<<20))
}

// A verification is of a message as long as the signed part of a packet of a
// few kilobytes, with the public key unpacked before.
const (
	verifyBatches = 9
	verifications = 300 // in a batch
	verifyMessage = 3600
)

// verifyCPU returns the processor time of one ML-DSA-65 verification in
// seconds: that of the median batch.
func verifyCPU() float64 {
	signing := suite.NewSigningKey(suite.NewSeed())
	message := suite.RandomBytes(verifyMessage)
	signature, err := signing.Sign(message, "packet")
	if err != nil {
		panic(err) // a fresh key signs
	}
	key, err := suite.ParseVerifyKey(signing.PublicKey())
	if err != nil {
		panic(err)
	}
	batches := make([]float64, verifyBatches)
	for i := range batches {
		before := ownCPU()
		for range verifications {
			if !key.Verify(message, signature, "packet") {
				panic("a signature does not verify")
			}
		}
		batches[i] = (ownCPU() - before) / verifications
	}
	return median(batches)
}

// ownCPU returns the processor time of this process in seconds.
func ownCPU() float64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // it has no way to fail
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
