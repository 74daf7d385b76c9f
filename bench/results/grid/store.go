package grid

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/warmpath/warmpath/internal/wholefile"
	"github.com/warmpath/warmpath/sim/engine"
	"github.com/warmpath/warmpath/sim/figures"
	simrig "github.com/warmpath/warmpath/sim/rig"
)

// conditions are all inputs of a run but the program: two runs with the same have the same figures.
type conditions struct {
	Cell
	TraceHash string          `json:"trace_hash"`
	Half      int             `json:"half"`
	Repeat    int             `json:"repeat"`
	MaxDelay  time.Duration   `json:"max_delay"`
	Engine    engine.Config   `json:"engine"`
	Policy    string          `json:"policy"`
	IDs       bool            `json:"ids"`
	Queue     bool            `json:"queue"` // prompts wait at the router, see docs/queue.md
	Seed      uint64          `json:"seed"`
	Split     string          `json:"split,omitempty"`   // which requests are split, of a fleet with roles
	Transfer  simrig.Transfer `json:"transfer,omitzero"` // of one
}

// kept is the file of a run: its conditions, the build that measured it, and what came out.
type kept struct {
	Conditions conditions      `json:"conditions"`
	Build      string          `json:"build"`
	Figures    figures.Figures `json:"figures"`
}

// run is a run to do; result is nil until it is there.
type run struct {
	conditions
	result *kept
}

// file is where a run is kept. The conditions are in its name, readable in part and as a hash in full.
func (c *conditions) file(store string) string {
	text, _ := json.Marshal(c) // numbers, strings and booleans
	sum := sha256.Sum256(text)
	name := fmt.Sprintf("%s-%d-%s.json", c.Policy, c.Seed, hex.EncodeToString(sum[:8]))
	return filepath.Join(store, c.Trace, fmt.Sprintf("%d-%s-%g", c.Endpoints, c.Fleet, c.Load), name)
}

// recall reads a run, nil when it is not kept. A file of others, or one that a crash has spoilt, counts as none.
func (c *conditions) recall(store string) (*kept, error) {
	data, err := os.ReadFile(c.file(store))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var k kept
	if err := json.Unmarshal(data, &k); err != nil || k.Conditions != *c {
		return nil, nil
	}
	return &k, nil
}

// keep writes a run, whole or not at all.
func (k *kept) keep(store string) error {
	data, err := json.MarshalIndent(k, "", " ")
	if err != nil {
		return err
	}
	name := k.Conditions.file(store)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return wholefile.Write(name, append(data, '\n'))
}

// ProgramHash tells builds of this program apart.
func ProgramHash() (string, error) {
	name, err := os.Executable()
	if err != nil {
		return "", err
	}
	return fileHash(name)
}

func fileHash(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)[:12]), nil
}
