package core

import "time"

// TestOnlyUpkeepDelay is the time between two passes of upkeep, for tests alone.
var TestOnlyUpkeepDelay = upkeepDelay

// TestOnlyJitter is by how much it is shortened.
var TestOnlyJitter = jitter

// TestOnlyKeepInterval is how often Keep looks at what is due, in seconds.
const TestOnlyKeepInterval = int64(keepInterval / time.Second)
