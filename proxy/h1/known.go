package h1

// KnownName is a field name that a proxy has to look at, as a small number, so
// that a loop over a head switches on an integer. It is found once, by the
// parser.
type KnownName uint8

// The names that are known. NameOther is every other name.
const (
	NameOther KnownName = iota
	NameConnection
	NameContentLength
	NameTransferEncoding
	NameHost
	NameVia
	NameExpect
	NameKeepAlive
	NameProxyConnection
	NameProxyAuthorization
	NameProxyAuthenticate
	NameProxyAuthenticationInfo
	NameProxyStatus
	NameTE
	NameTrailer
	NameUpgrade
	NameMaxForwards
	NameHTTP2Settings
	NameDate
	NameContentType
	NameAuthorization
	NameLocation
	NameSetCookie
	NameRetryAfter
	NameSecFetchSite
	numKnown
)

var knownNames = [numKnown]string{
	"", "connection", "content-length", "transfer-encoding", "host", "via", "expect", "keep-alive",
	"proxy-connection", "proxy-authorization", "proxy-authenticate", "proxy-authentication-info",
	"proxy-status", "te", "trailer", "upgrade", "max-forwards", "http2-settings", "date", "content-type",
	"authorization", "location", "set-cookie", "retry-after", "sec-fetch-site",
}

// String returns the name in lower case; NameOther is "".
func (k KnownName) String() string { return knownNames[k] }

// candidates lists, by length, the known names of that length. A length has at
// most four, and their first bytes tell nearly all of them apart.
var candidates = func() (byLength [32][]KnownName) {
	for k := NameOther + 1; k < numKnown; k++ {
		byLength[len(knownNames[k])] = append(byLength[len(knownNames[k])], k)
	}
	return byLength
}()

// LookupName returns the known name that name spells in any case, or NameOther.
func LookupName(name []byte) KnownName {
	if len(name) == 0 || len(name) >= len(candidates) {
		return NameOther
	}
	first := name[0] | 0x20
	for _, k := range candidates[len(name)] {
		if known := knownNames[k]; known[0] == first && EqualName(name, known) {
			return k
		}
	}
	return NameOther
}
