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

// EtcdConfig declares engines that are registered in etcd: one key each under a prefix. The value is an address, the
// JSON or YAML of an endpoint (url, role, models, ...), or the format of TensorRT-LLM's servers (url, server_type). A
// key with a lease disappears when the engine stops renewing it.
type EtcdConfig struct {
	// Endpoints of etcd: host:port, or https://host:port for TLS.
	Endpoints []string `yaml:"endpoints"`
	// Prefix of the keys. The rest of a key is the engine's name, unless the value has one.
	Prefix string `yaml:"prefix"`
	// User of etcd, if it requires one.
	User string `yaml:"user"`
	// PasswordFile is the name of a file with the user's password.
	PasswordFile string `yaml:"password_file"`
	// Engine has the settings of engines whose values do not set them, as in a list of endpoints, without url and name.
	Engine EndpointConfig `yaml:"engine"`
}

// Validate reports every fault, each a *FieldError, joined into one error.
func (c EtcdConfig) Validate() error {
	var faults []error
	if len(c.Endpoints) == 0 {
		faults = append(faults, fault("endpoints", "needs at least one etcd address"))
	}
	for i, e := range c.Endpoints {
		if _, _, err := normalise(e); err != nil {
			faults = append(faults, fault(fmt.Sprintf("endpoints[%d]", i), "%w", err))
		}
	}
	if strings.Trim(c.Prefix, "/") == "" {
		faults = append(faults,
			fault("prefix", "is missing; give the prefix of the engines' keys, such as /warmpath/engines/"))
	}
	if (c.User == "") != (c.PasswordFile == "") {
		faults = append(faults, fault("user", "give both user and password_file, or neither"))
	}
	return errors.Join(append(faults, c.Engine.checkTemplate()...)...)
}

// Password reads the password of etcd's user, "" if there is none.
func (c EtcdConfig) Password(keys Keys) (string, error) {
	p, err := keys.of(EndpointConfig{APIKeyFile: c.PasswordFile})
	if fe := (*FieldError)(nil); errors.As(err, &fe) {
		err = &FieldError{Field: "password_file", Err: fe.Err}
	}
	return p, err
}

// trtWorker is the value that a TensorRT-LLM server with --metadata_server_config_file writes.
type trtWorker struct {
	URL  string `json:"url"`
	Type string `json:"server_type"`
	Role string `json:"server_role"` // another name of server_type
}

// trtWorkerOf decodes such a value; ok is false for other values.
func trtWorkerOf(value string) (w trtWorker, ok bool) {
	err := json.Unmarshal([]byte(value), &w)
	return w, err == nil && w.kind() != ""
}

func (w trtWorker) kind() string { return strings.ToLower(cmp.Or(w.Type, w.Role)) }

// role is the role of the endpoint, "" for a server that takes no requests.
func (w trtWorker) role() string {
	switch w.kind() {
	case "context":
		return fleet.RolePrefill.String()
	case "generation":
		return fleet.RoleDecode.String()
	}
	return ""
}

// Declares is the declaration of an engine from the part of its key after the prefix, and the value.
func (c EtcdConfig) Declares(name, value string) (EndpointConfig, error) {
	e := c.Engine
	if text := strings.TrimSpace(value); !strings.HasPrefix(text, "{") && !strings.Contains(text, "\n") &&
		!strings.Contains(text, ": ") {
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
		return e, errors.New("api_key_env and api_key_file are not allowed in etcd: they could send a secret of the " +
			"router to another server")
	}
	if e.Name == "" {
		e.Name = strings.Trim(strings.ReplaceAll(name, "/", "."), ".")
	}
	if _, at, err := normalise(e.URL); err == nil {
		e.KVEvents, e.KVReplay = ownKV(e.KVEvents, at), ownKV(e.KVReplay, at)
	}
	return e, e.Validate()
}
