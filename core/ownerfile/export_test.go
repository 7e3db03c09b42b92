package ownerfile

// Reserve is how a file gets its name on a disk without hard links.
var Reserve = reserve
