package discovery

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/strictyaml"
)

// EtcdConfig declares engines that are registered in etcd: a key for each under a prefix, whose value is an address, or the JSON or YAML of
// an endpoint (url, role, models, ...), or what TensorRT-LLM's servers write (url, server_type). Keys with a lease go when the engine no longer renews it.
type EtcdConfig struct {
	// Endpoints of etcd: host:port, with https:// before it for TLS.
	Endpoints []string `yaml:"endpoints"`
	// Prefix of the keys. What follows it is the engine's name, unless its value says another.
	Prefix string `yaml:"prefix"`
	// User and password of etcd, if it asks for them.
	User string `yaml:"user"`
	// PasswordFile names the file with the user's password.
	PasswordFile string `yaml:"password_file"`
	// Engine holds for each engine that does not say otherwise, as in a list of endpoints, without url and name.
	Engine EndpointConfig `yaml:"engine"`
}

// Validate reports every fault, each a *FieldError, joined into one error.
func (c EtcdConfig) Validate() error {
	var faults []error
	if len(c.Endpoints) == 0 {
		faults = append(faults, fault("endpoints", "needs at least one address of etcd"))
	}
	for i, e := range c.Endpoints {
		if _, _, err := normalise(e); err != nil {
			faults = append(faults, fault(fmt.Sprintf("endpoints[%d]", i), "%w", err))
		}
	}
	if strings.Trim(c.Prefix, "/") == "" {
		faults = append(faults, fault("prefix", "is missing: under which keys are the engines, such as /warmpath/engines/?"))
	}
	if (c.User == "") != (c.PasswordFile == "") {
		faults = append(faults, fault("user", "user and password_file belong together"))
	}
	return errors.Join(append(faults, c.Engine.checkTemplate()...)...)
}

// Password reads the password of etcd's user; "" where none is needed.
func (c EtcdConfig) Password(keys Keys) (string, error) {
	p, err := keys.of(EndpointConfig{APIKeyFile: c.PasswordFile})
	if fe := (*FieldError)(nil); errors.As(err, &fe) {
		err = &FieldError{Field: "password_file", Err: fe.Err}
	}
	return p, err
}

// trtWorker is what TensorRT-LLM writes of a server with --metadata_server_config_file.
type trtWorker struct {
	URL  string `json:"url"`
	Type string `json:"server_type"`
	Role string `json:"server_role"` // another name of it
}

// trtWorkerOf reads such a value; ok is false for others.
func trtWorkerOf(value string) (w trtWorker, ok bool) {
	err := json.Unmarshal([]byte(value), &w)
	return w, err == nil && w.kind() != ""
}

func (w trtWorker) kind() string { return strings.ToLower(cmp.Or(w.Type, w.Role)) }

// role is that of the endpoint; "" for a server that is none.
func (w trtWorker) role() string {
	switch w.kind() {
	case "context":
		return fleet.RolePrefill.String()
	case "generation":
		return fleet.RoleDecode.String()
	}
	return ""
}

// Declares is the declaration of the engine behind a key: the part of it after the prefix, and its value.
func (c EtcdConfig) Declares(name, value string) (EndpointConfig, error) {
	e := c.Engine
	if text := strings.TrimSpace(value); !strings.HasPrefix(text, "{") && !strings.Contains(text, "\n") && !strings.Contains(text, ": ") {
		e.URL = text
	} else if worker, ok := trtWorkerOf(text); ok {
		if e.URL, e.Kind = worker.URL, cmp.Or(e.Kind, string(fleet.KindTRTLLM)); worker.role() == "" {
			return e, fmt.Errorf("a server of type %q takes no requests", worker.kind())
		}
		e.Role = worker.role()
	} else if _, err := strictyaml.Decode(name, []byte(value), &e, strictyaml.Options{}); err != nil {
		return e, err
	}
	if e.APIKeyEnv != c.Engine.APIKeyEnv || e.APIKeyFile != c.Engine.APIKeyFile {
		return e, errors.New("api_key_env and api_key_file are not for a registry to say: they would send a secret of the router's elsewhere")
	}
	if e.Name == "" {
		e.Name = strings.Trim(strings.ReplaceAll(name, "/", "."), ".")
	}
	if _, at, err := normalise(e.URL); err == nil {
		e.KVEvents, e.KVReplay = ownKV(e.KVEvents, at), ownKV(e.KVReplay, at)
	}
	return e, e.Validate()
}
