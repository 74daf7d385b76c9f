package config

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/discovery"
	"github.com/warmpath/warmpath/internal/strictyaml"
	"github.com/warmpath/warmpath/internal/wholefile"
)

// TenantKey is one API key, its tenant, and what it is for.
type TenantKey struct {
	// Tenant is the name.
	Tenant string `yaml:"tenant"`
	// Key is the API key itself, or "sha256:" and its SHA-256 in hexadecimal digits, which warmpath key prints.
	Key string `yaml:"key" secret:"true"`
	// SHA256 is the key's SHA-256 alone, instead of Key.
	SHA256 string `yaml:"sha256"`
	// Name says what the key is for, for lists of keys.
	Name string `yaml:"name"`
	// Models are the only models that the key may use, among those of its tenant, by the names that clients use,
	// aliases included; * in one stands for any text. Others are answered 404, as if they did not exist. Left out, it
	// may use all.
	Models fleet.Names `yaml:"models"`
	// Ends is when the key ends: from then on it is answered 401 key_ended. A day is its beginning in UTC. Left out, it
	// never ends.
	Ends Moment `yaml:"ends"`
}

// Moment is a point in time, as RFC 3339 writes it, or a day, which is its beginning in UTC.
type Moment struct{ time.Time }

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *Moment) UnmarshalText(text []byte) error {
	for _, layout := range [...]string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, string(text)); err == nil {
			m.Time = t.UTC()
			return nil
		}
	}
	return fmt.Errorf("want %s, got %q", m.Wants(), text)
}

// Wants says what one looks like.
func (Moment) Wants() string {
	return "a time such as 2027-01-31T18:00:00Z, or a day such as 2027-01-31"
}

// String is it as RFC 3339 writes it; "" for none.
func (m Moment) String() string {
	if m.IsZero() {
		return ""
	}
	return m.Format(time.RFC3339)
}

const (
	hashedKey    = "sha256:" // begins a key that is given as its SHA-256
	mostKeys     = 10_000    // in the file
	longestName  = 256       // bytes of a name of a key, or of a pattern of models
	mostPatterns = 256       // of models, of one key or tenant
)

// KeysFileBytes is the largest file of keys, in bytes.
const KeysFileBytes = 4 << 20

// NewKey makes a random API key of 256 bits, and the form of it that the configuration can hold without telling it.
func NewKey() (key, form string) {
	var b [32]byte
	_, _ = rand.Read(b[:]) // it never fails
	key = "wp-" + base64.RawURLEncoding.EncodeToString(b[:])
	sum := sha256.Sum256([]byte(key))
	return key, hashedKey + hex.EncodeToString(sum[:])
}

// keyScalar refuses a plain text in the place of a key, without saying it: it may be the key.
func keyScalar(any, string) error {
	return errors.New(`want a mapping such as {tenant: NAME, key: "sha256:..."}; warmpath key makes one`)
}

// hashed reports whether the key itself is not told.
func (k TenantKey) hashed() bool { return k.SHA256 != "" || strings.HasPrefix(k.Key, hashedKey) }

// sum is the SHA-256 of the key; false if it is invalid.
func (k TenantKey) sum() (sum [sha256.Size]byte, ok bool) {
	if digest, hashed := strings.CutPrefix(k.Key, hashedKey); hashed && k.SHA256 == "" {
		k.Key, k.SHA256 = "", digest
	}
	if k.SHA256 == "" {
		return sha256.Sum256([]byte(k.Key)), k.Key != ""
	}
	b, err := hex.DecodeString(k.SHA256)
	return [sha256.Size]byte(append(b, sum[:]...)), err == nil && len(b) == sha256.Size && k.Key == ""
}

// Line is the key as a line of a list under api_keys.
func (k TenantKey) Line() string {
	line := "  - {key: " + strconv.Quote(k.Key) + ", tenant: " + strconv.Quote(k.Tenant)
	if k.Name != "" {
		line += ", name: " + strconv.Quote(k.Name)
	}
	if len(k.Models) > 0 {
		quoted := make([]string, len(k.Models))
		for i, m := range k.Models {
			quoted[i] = strconv.Quote(m)
		}
		line += ", models: [" + strings.Join(quoted, ", ") + "]"
	}
	if !k.Ends.IsZero() {
		line += ", ends: " + strconv.Quote(k.Ends.String())
	}
	return line + "}\n"
}

// keysFile is the format of the file of keys: the same list as in the configuration.
type keysFile struct {
	APIKeys *[]TenantKey `yaml:"api_keys"`
}

// DecodeKeys reads a file of keys, with file:line:column for every fault. Keys that are no hashes are faults, and so is
// a file without the list: half a file must not end all keys.
func DecodeKeys(file string, data []byte) ([]TenantKey, error) {
	var content keysFile
	places, err := strictyaml.Decode(file, data, &content, strictyaml.Options{Scalars: scalars()})
	switch {
	case err != nil:
		return nil, err
	case content.APIKeys == nil:
		return nil, fmt.Errorf(`%s:1: no keys; the file needs a list under the key "api_keys", which may be []`, file)
	case len(*content.APIKeys) > mostKeys:
		return nil, fmt.Errorf("%s:1: %d keys, must be %d or fewer", file, len(*content.APIKeys), mostKeys)
	}
	var faults []error
	for _, e := range checkKeys("api_keys", *content.APIKeys, true) {
		if at, ok := errors.AsType[*discovery.FieldError](e); ok {
			e = places.Fault(at.Field, e)
		}
		faults = append(faults, e)
	}
	return *content.APIKeys, errors.Join(faults...)
}

// Keys are the API keys of the configuration and of the file, by their SHA-256.
func (t Tenants) Keys() (map[[sha256.Size]byte]TenantKey, error) {
	out := make(map[[sha256.Size]byte]TenantKey, len(t.APIKeys))
	for _, k := range t.APIKeys {
		if sum, ok := k.sum(); ok {
			out[sum] = k
		}
	}
	if t.KeysFile == "" {
		return out, nil
	}
	data, err := wholefile.Read(t.KeysFile, KeysFileBytes)
	if err != nil {
		return nil, fault("tenants.keys_file", "%w", err)
	}
	listed, err := DecodeKeys(t.KeysFile, data)
	if err != nil {
		return nil, err
	}
	for i, k := range listed {
		sum, _ := k.sum()
		if other, twice := out[sum]; twice {
			return nil, fault("tenants.keys_file", "%s: api_keys[%d] is given to %q in tenants.api_keys too",
				t.KeysFile, i, other.Tenant)
		}
		out[sum] = k
	}
	return out, nil
}

// checkKeys reports what is wrong with keys. hashes says that they must not be told.
func checkKeys(path string, keys []TenantKey, hashes bool) (faults []error) {
	whose := make(map[[sha256.Size]byte]int, len(keys))
	for i, k := range keys {
		at := path + "[" + strconv.Itoa(i) + "]"
		if k.Tenant == "" || len(k.Tenant) > 128 || controls(k.Tenant) {
			faults = append(faults, fault(at+".tenant", "must be 1 to 128 bytes, without control characters"))
		}
		if len(k.Name) > longestName || controls(k.Name) {
			faults = append(faults,
				fault(at+".name", "must be at most %d bytes, without control characters", longestName))
		}
		faults = append(faults, checkNames(at+".models", k.Models)...)
		sum, ok := k.sum()
		switch {
		case hashes && ok && !k.hashed():
			faults = append(faults,
				fault(at+".key", `must be "sha256:" and the key's SHA-256, not the key itself; warmpath key prints it`))
			continue
		case !ok:
			faults = append(faults, fault(at, "needs either key or sha256 (64 hexadecimal digits)"))
			continue
		}
		if first, twice := whose[sum]; twice {
			other := keys[first]
			switch {
			case other.Tenant != k.Tenant:
				faults = append(faults, fault(at, "the key of %q is given to %q too", other.Tenant, k.Tenant))
			case !slices.Equal(other.Models, k.Models) || other.Ends != k.Ends:
				faults = append(faults, fault(at, "the key has another end or other models in %s[%d]", path, first))
			}
			continue
		}
		whose[sum] = i
	}
	return faults
}

// checkNames reports patterns of models that can mean nothing.
func checkNames(at string, names fleet.Names) (faults []error) {
	if names != nil && len(names) == 0 {
		return []error{fault(at, "is an empty list; leave it out for all models")}
	}
	if len(names) > mostPatterns {
		return []error{fault(at, "has %d names, must have %d or fewer", len(names), mostPatterns)}
	}
	for i, n := range names {
		if n == "" || len(n) > longestName || controls(n) {
			faults = append(faults,
				fault(at+"["+strconv.Itoa(i)+"]", "must be 1 to %d bytes, without control characters", longestName))
		}
	}
	return faults
}

// controls reports whether a text has control characters.
func controls(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}
