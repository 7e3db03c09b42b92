package relaysvc

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/ownerfile"
)

// hsts asks browsers for https for a year. It is sent over TLS only.
const hsts = "max-age=31536000"

// maxPEM bounds a file of certificates or a key in bytes.
const maxPEM = 1 << 20

// certificateCheck is how many seconds pass before a handshake looks at the
// files again.
const certificateCheck = 2

// certificate is the relay's certificate and key, read from two files. It
// follows them when they change. A pair that does not load leaves the one
// before in use: clients must not lose the relay over half a renewal.
type certificate struct {
	certPath, keyPath string
	guarded           bool   // see Config.TLSKeyGuarded
	url               string // public URL of the relay
	log               *slog.Logger

	mu      sync.Mutex
	pair    *tls.Certificate // guarded by mu, as what follows
	seen    [2]stamp         // of the files when they were last read
	checked int64            // Unix seconds
}

// stamp tells whether a file was written since.
type stamp struct {
	modified time.Time
	size     int64
	mode     os.FileMode
}

// CheckTLS reads the certificate and the key of c, as New does. The warning
// says why clients will refuse a certificate that the relay takes, "" when they
// will not. It needs c.Clock. Code: invalid_argument.
func CheckTLS(c Config) (warning string, err error) {
	cert, err := openCertificate(c, slog.New(slog.DiscardHandler))
	if err != nil {
		return "", err
	}
	return unusable(cert.pair.Leaf, c.PublicURL, c.Clock()), nil
}

// unusable says why clients of a relay with that public URL refuse its
// certificate, or nothing. Whom they trust is not known here.
func unusable(leaf *x509.Certificate, publicURL string, now int64) string {
	if expired(leaf, now) {
		return "the certificate has expired: " + leaf.NotAfter.UTC().Format(time.DateTime)
	}
	if now < leaf.NotBefore.Unix() {
		return "the certificate is not valid yet: " + leaf.NotBefore.UTC().Format(time.DateTime)
	}
	at, err := url.Parse(publicURL)
	if err == nil && leaf.VerifyHostname(at.Hostname()) != nil {
		return "the certificate is not one for " + at.Hostname()
	}
	return ""
}

func expired(leaf *x509.Certificate, now int64) bool { return now > leaf.NotAfter.Unix() }

// openCertificate reads the pair of a configuration. One that clients will not
// take is logged. Code: invalid_argument.
func openCertificate(config Config, log *slog.Logger) (*certificate, error) {
	now := config.Clock()
	c := &certificate{certPath: config.TLSCert, keyPath: config.TLSKey, guarded: config.TLSKeyGuarded, url: config.PublicURL, log: log, checked: now}
	seen, err := c.stamps()
	if err == nil {
		c.pair, err = c.load()
	}
	if err != nil {
		return nil, fault.Wrapf(fault.InvalidArgument, err, "TLS")
	}
	c.seen = seen
	c.warn(now)
	return c, nil
}

func (c *certificate) warn(now int64) {
	if why := unusable(c.pair.Leaf, c.url, now); why != "" {
		c.log.Warn("clients will refuse the relay", "reason", why)
	}
}

// load reads both files. The key has to be readable by its owner alone.
func (c *certificate) load() (*tls.Certificate, error) {
	read := ownerfile.Read
	if c.guarded {
		read = readPEM
	}
	key, err := read(c.keyPath, maxPEM)
	if err != nil {
		return nil, err
	}
	defer clear(key)
	chain, err := readPEM(c.certPath, maxPEM)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", c.certPath, c.keyPath, err)
	}
	return &pair, nil
}

// readPEM returns a file of at most limit bytes, whoever else can read it.
func readPEM(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("%s is larger than %d bytes", path, limit)
	}
	return text, err
}

func (c *certificate) stamps() (s [2]stamp, err error) {
	for i, path := range []string{c.certPath, c.keyPath} {
		info, err := os.Stat(path)
		if err != nil {
			return s, err
		}
		s[i] = stamp{info.ModTime(), info.Size(), info.Mode()}
	}
	return s, nil
}

// current returns the pair for a handshake at now, after a look at the files
// when the last one was a while ago.
func (c *certificate) current(now int64) *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now >= c.checked+certificateCheck || now < c.checked {
		c.checked = now
		if seen, err := c.stamps(); err == nil && seen != c.seen {
			_ = c.replace(seen, now) // it has been logged
		}
	}
	return c.pair
}

// reload reads the files, changed or not.
func (c *certificate) reload(now int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen, err := c.stamps()
	if err != nil {
		c.log.Error("the certificate stays as it was", "error", err)
		return err
	}
	return c.replace(seen, now)
}

// replace takes over the files, which have these stamps. The caller holds mu.
// A pair that fails is not tried again before it has changed. One that has
// expired is no renewal of one that has not.
func (c *certificate) replace(seen [2]stamp, now int64) error {
	c.seen = seen
	pair, err := c.load()
	if err == nil && expired(pair.Leaf, now) && !expired(c.pair.Leaf, now) {
		err = fault.New(fault.InvalidArgument, "the certificate in %s has expired", c.certPath)
	}
	if err != nil {
		c.log.Error("the certificate stays as it was", "error", err)
		return err
	}
	c.pair = pair
	c.log.Info("the certificate was read anew")
	c.warn(now)
	return nil
}

// tlsConfig returns the settings of the main listener.
func (s *Server) tlsConfig() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return s.certificate.current(s.config.Clock()), nil
		},
	}
}
