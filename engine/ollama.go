package engine

import (
	"fmt"
	"strings"

	"github.com/warmpath/warmpath/fleet"
)

// ollama is Ollama, by its API documentation, version 0.33.
type ollama struct{}

func (ollama) Kind() fleet.Kind { return fleet.KindOllama }

// Alive asks /api/version, which also gives the version.
func (ollama) Alive() Ask { return Ask{Name: AskAlive, Path: "/api/version"} }

func (ollama) Asks() []Ask { return []Ask{{Name: AskModels, Path: "/api/tags"}} }

// LoadAsks: Ollama has no load figures (ollama/ollama#3144).
func (ollama) LoadAsks() []Ask { return nil }

func (ollama) Read(a Answer, _ fleet.Part, r *fleet.Report) error {
	switch a.Ask {
	case AskAlive:
		readAlive(a, r)
		if a.Status == 200 {
			_ = readVersion(a, r) // it is alive in any case
		}
		return nil
	default:
		return readTags(a, r)
	}
}

func (ollama) Supports(part fleet.Part) error {
	return wholeOnly(fleet.KindOllama, part, "it has neither ranks nor slots")
}

func (ollama) Address(fleet.Part) Addressing { return Addressing{} }

// readTags reads /api/tags. A name without a tag means ":latest", so such a model has both names. The context is unknown:
// Ollama chooses it when it loads a model, and truncates prompts instead of rejecting them.
func readTags(a Answer, r *fleet.Report) error {
	var tags struct {
		Models []struct {
			Name string `json:"name"`
		} `json:"models"`
	}
	if err := decode(a, &tags); err != nil {
		return err
	}
	if tags.Models == nil {
		return fmt.Errorf("engine: GET %s: no list of models", a.Path)
	}
	models := make([]fleet.Model, 0, len(tags.Models))
	for _, m := range tags.Models {
		models = addModel(models, fleet.Model{ID: m.Name})
		if short, ok := strings.CutSuffix(m.Name, ":latest"); ok {
			models = addModel(models, fleet.Model{ID: short})
		}
	}
	r.Models = models
	return nil
}
