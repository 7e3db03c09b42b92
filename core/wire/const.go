package wire

// The constants of 02#constants, in the order of that table. Sizes are bytes
// and times are seconds unless the name says otherwise.
const (
	TimestampWindowSeconds       = 300
	OfflineWindowSeconds         = 604800
	MaxPlaintextBytes            = 1179648
	MaxPacketBytes               = 2097152
	MaxSendBodyBytes             = 2162688
	MaxPublishedAgentBytes       = 1048576
	MaxCardRecordBytes           = 16384
	MaxJSONDepth                 = 32
	MaxTypeBytes                 = 256
	MaxThreadIDLength            = 256 // code points
	MaxKELEvents                 = 256
	MaxSigningKeyLifetime        = 31622400
	MaxDescriptorLifetime        = 604800
	MaxPermitLifetime            = 2592000
	PermitRenewalSeconds         = 1296000
	MaxRetainedPrekeys           = 16
	MaxExtBytes                  = 32768
	MaxPayAccounts               = 8
	MaxNoteBytes                 = 512
	MaxInboxPage                 = 100 // entries
	MaxPageBytes                 = 8388608
	MaxManifestBytes             = 65536
	MaxPendingContactRequests    = 16
	ContactRequestTTLSeconds     = 86400
	MaxStrangerKELEvents         = 32
	StrangerAllowance            = 16 // entries
	StrangerNetworkAllowance     = 2  // entries
	ClientNetworkPrefixIPv4      = 24 // bits
	ClientNetworkPrefixIPv6      = 56 // bits
	HandleClaimsPerNetworkPerDay = 8
	MinBlockCap                  = 256
	PinRefreshIntervalSeconds    = 30
	MaxFetchAttempts             = 3
)

// MaxResponseDepth bounds a relay response or SSE data as a whole: the deepest
// wrapper, an inbox page, holds its packets at depth 3 (02#json-values).
const MaxResponseDepth = MaxJSONDepth + 3

// MaxInt is the greatest wire integer, 2^53-1 (02#wire-integers).
const MaxInt = 1<<53 - 1

// Version is the value of a packet's ace member (03#decoding).
const Version = "1"

// The only signature scheme (02#signatures).
const SchemeMLDSA65 = "ml-dsa-65"
