package config

// EndpointToken names the endpoint of each answer in a header, sealed so that clients cannot read it, and accepts it in
// requests: session affinity of llm-d's endpoint picker by encoded endpoint. llm-d's own tokens work if an endpoint has
// the name in them (namespace/name).
type EndpointToken struct {
	// Header that carries the token both ways, in llm-d x-session-token. Empty turns it off.
	Header string `yaml:"header"`
	// Key is the secret that seals tokens, at least 16 bytes and the same on every replica. Without it or key_file one
	// is drawn at each start, and tokens of other replicas are ignored.
	Key string `yaml:"key" secret:"true"`
	// KeyFile has the secret instead; surrounding white space is removed.
	KeyFile string `yaml:"key_file"`
}

// Secret is the key, read from its file if it is there; nil for none.
func (t EndpointToken) Secret() ([]byte, error) {
	key, err := t.secret().read()
	return []byte(key), err
}

func (t EndpointToken) secret() secret {
	return secret{"endpoint_token.key", t.Key, t.KeyFile, leastSaltKey}
}

func (t EndpointToken) check() []error {
	var faults []error
	if !headerName(t.Header) {
		faults = append(faults, fault("endpoint_token.header", "%q is not a header name", t.Header))
	}
	return append(faults, t.secret().check()...)
}
