package core

// TestOnlyUpkeepDelay is the time between two passes of upkeep, for tests alone.
var TestOnlyUpkeepDelay = upkeepDelay
