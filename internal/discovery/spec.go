package discovery

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/warmpath/warmpath/internal/unixsocket"
)

// ParseEndpoint parses the form of an endpoint in flags and environment: URL[,key=value...], for example
// "http://10.0.0.1:8000,weight=2,name=a,kind=vllm,ranks=4,models=m1+m2". It reports all faults.
func ParseEndpoint(spec string) (EndpointConfig, error) {
	parts := strings.Split(spec, ",")
	c := EndpointConfig{URL: strings.TrimSpace(parts[0])}
	var faults []error
	seen := map[string]bool{}
	for _, p := range parts[1:] {
		key, value, ok := strings.Cut(strings.TrimSpace(p), "=")
		switch {
		case strings.Contains(key, "://"):
			faults = append(faults, fmt.Errorf("%q is another URL: give each endpoint by itself", p))
			continue
		case !ok:
			faults = append(faults, fmt.Errorf("%q is not key=value", p))
			continue
		case seen[key]:
			faults = append(faults, fmt.Errorf("%s is given twice", key))
			continue
		}
		seen[key] = true
		if err := c.set(key, value); err != nil {
			faults = append(faults, err)
		}
	}
	if err := c.Validate(); err != nil {
		faults = append(faults, err)
	}
	if fe := (*FieldError)(nil); len(faults) == 1 && len(parts) == 1 && errors.As(faults[0], &fe) && fe.Field == "url" {
		return EndpointConfig{}, fe.Err // which quotes all of it
	}
	if len(faults) > 0 {
		return EndpointConfig{}, fmt.Errorf("endpoint %q: %w", spec, errors.Join(faults...))
	}
	return c, nil
}

// traits are the settings that an engine or a registry may set.
var traits = []string{
	"kind", "role", "weight", "models", "ranks", "slots", "conversation_id", "kv_events", "kv_replay", "kv_topic",
	"kv_address", "bootstrap_port", "tp_size",
}

var optionNames = "name, api_key, api_key_env, api_key_file, " + strings.Join(traits, ", ")

// SetTrait sets one setting that an engine or a registry gives, by its name. Models are separated by commas, + or
// white space. Name and API keys cannot be set: a key could be any file or variable of the router.
func (c *EndpointConfig) SetTrait(key, value string) error {
	if !slices.Contains(traits, key) {
		return fmt.Errorf("is unknown; known: %s", strings.Join(traits, ", "))
	}
	if key == "models" {
		value = strings.Join(strings.FieldsFunc(value, func(r rune) bool {
			return strings.ContainsRune("+, \n", r)
		}), "+")
	}
	return c.set(key, strings.TrimSpace(value))
}

func (c *EndpointConfig) set(key, value string) error {
	var err error
	switch key {
	case "name":
		c.Name = value
	case "kind":
		c.Kind = value
	case "conversation_id":
		c.ConversationID = value
	case "role":
		c.Role = value
	case "models":
		c.Models = strings.Split(value, "+")
	case "kv_events":
		c.KVEvents = value
	case "kv_replay":
		c.KVReplay = value
	case "kv_topic":
		c.KVTopic = value
	case "kv_address":
		c.KVAddress = value
	case "api_key":
		c.APIKey = value
	case "api_key_env":
		c.APIKeyEnv = value
	case "api_key_file":
		c.APIKeyFile = value
	case "weight":
		var w float64
		w, err = strconv.ParseFloat(value, 64)
		c.Weight = &w
	case "ranks":
		c.Ranks, err = strconv.Atoi(value)
	case "slots":
		c.Slots, err = strconv.Atoi(value)
	case "bootstrap_port":
		c.BootstrapPort, err = strconv.Atoi(value)
	case "tp_size":
		c.TPSize, err = strconv.Atoi(value)
	default:
		return fmt.Errorf("unknown option %q; known: %s", key, optionNames)
	}
	if err != nil {
		return fmt.Errorf("%s=%s is not a number", key, value)
	}
	return nil
}

// ParseEndpoints parses the list in WARMPATH_ENDPOINTS: endpoints in the form of ParseEndpoint, separated by commas or
// white space.
func ParseEndpoints(list string) ([]EndpointConfig, error) {
	var specs []string
	for _, item := range strings.FieldsFunc(list, func(r rune) bool {
		return r == ',' || r == ' ' || r == '\t' || r == '\n' || r == '\r'
	}) {
		// An address has no "=", since it has no query.
		if n := len(specs); n > 0 && strings.Contains(item, "=") {
			specs[n-1] += "," + item
			continue
		}
		specs = append(specs, item)
	}
	var out []EndpointConfig
	var faults []error
	for _, s := range specs {
		c, err := ParseEndpoint(s)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		out = append(out, c)
	}
	return out, errors.Join(faults...)
}

// variable is how shells, Compose, Kubernetes and templates write a variable in the place of a host.
var variable = regexp.MustCompile(`\$[{(]|\{\{|(^|//)\$\w`)

// normalise returns the base address in canonical form, and its host:port or the name of its socket.
func normalise(address string) (base, at string, err error) {
	if address == "" {
		return "", "", errors.New("is missing")
	}
	if unixsocket.Is(address) {
		return unixsocket.Base(address)
	}
	full := address
	if !strings.Contains(address, "://") {
		full = "http://" + address
		if scheme, rest, ok := cutScheme(address); ok && !strings.Contains(rest, "@") {
			return "", "", fmt.Errorf("%q is not a URL; did you mean %s://%s?", address, scheme, rest)
		}
	}
	if variable.MatchString(address) && !strings.Contains(address, "@") { // that may follow a password
		return "", "", fmt.Errorf("%q is not a URL: variables are not replaced here; give endpoints by --endpoint or "+
			"WARMPATH_ENDPOINTS", address)
	}
	u, err := url.Parse(full)
	if err != nil {
		if ue := (*url.Error)(nil); errors.As(err, &ue) {
			err = ue.Err
		}
		return "", "", fmt.Errorf("%q is not a URL: %w", address, err)
	}
	u.Scheme, u.Host = strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	if u.User != nil { // checked first, and without the address in the error, since it may contain a password
		return "", "", errors.New("must not contain a user name or password; use api_key")
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return "", "", fmt.Errorf("%q must start with http://, https:// or unix:///", address)
	case u.Hostname() == "" || strings.ContainsAny(u.Host, " \t"):
		return "", "", fmt.Errorf("%q has no host", address)
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.Contains(address, "#"):
		return "", "", fmt.Errorf("%q must not have a query or a fragment", address)
	case strings.HasSuffix(u.Host, ":"):
		return "", "", fmt.Errorf("%q has an empty port", address)
	}
	if err := checkName(u.Host); err != nil { // such as a zone ("%eth0"), which is not allowed in a Host header
		return "", "", fmt.Errorf("%q: the host %w", address, err)
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	} else if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return "", "", fmt.Errorf("%q: the port must be between 1 and 65535", address)
	}
	// a comma ends an address in flags and lists
	path := strings.ReplaceAll(strings.TrimRight(u.EscapedPath(), "/"), ",", "%2C")
	if base, of := cutRequest(path); of != "" {
		return "", "", fmt.Errorf("%q ends in %s, which is part of requests; use %s://%s%s",
			address, of, u.Scheme, u.Host, base)
	}
	return u.Scheme + "://" + u.Host + path, net.JoinHostPort(u.Hostname(), port), nil
}

// dialled is an address in the way in which equal ones look equal: with its port, and loopback by number.
func dialled(base, at string) string {
	scheme, rest, _ := strings.Cut(base, "://")
	host, port, err := net.SplitHostPort(at)
	if err != nil || unixsocket.Is(base) {
		return base
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		host = ip.Unmap().String()
	}
	_, path, _ := strings.Cut(rest, "/")
	return scheme + "://" + net.JoinHostPort(host, port) + "/" + path
}

// cutScheme cuts a scheme that is not followed by "://", as in "http//gpu:8000" or "https:gpu:8000". A host may have
// its name, as in "http:8000".
func cutScheme(address string) (scheme, rest string, ok bool) {
	for _, scheme := range []string{"https", "http"} {
		if rest, ok := strings.CutPrefix(address, scheme); ok && rest != "" && strings.ContainsAny(rest[:1], ":/;") {
			if rest = strings.TrimLeft(rest, ":/;"); strings.Trim(rest, "0123456789/") != "" {
				return scheme, rest, true
			}
		}
	}
	return "", "", false
}

// defaultName is the name of an endpoint without one. Engines behind one gateway differ by path only.
func defaultName(base, at string) string {
	_, rest, _ := strings.Cut(base, "://")
	_, path, below := strings.Cut(rest, "/")
	if !below || unixsocket.Is(base) {
		return at
	}
	name := at + "_" + strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r) {
			return r
		}
		return '_'
	}, path)
	return name[:min(len(name), maxName)]
}

// cutRequest cuts off the end of an endpoint's path that belongs to requests: the address that clients are given, or
// that of one API, is easily taken for the engine's. of is "" if there is none.
func cutRequest(path string) (base, of string) {
	for _, of := range [...]string{
		"/v1", "/v1/chat/completions", "/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses",
		"/v1/embeddings", "/v1/models", "/api/chat", "/api/generate", "/generate",
	} {
		if base, ok := strings.CutSuffix(path, of); ok {
			return base, of
		}
	}
	return path, ""
}
