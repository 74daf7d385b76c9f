package engine

import (
	"fmt"
	"strings"

	"github.com/warmpath/warmpath/fleet"
)

// ollama is Ollama, by its API documentation and what 0.33.0-rc2 answers.
type ollama struct{}

func (ollama) Kind() fleet.Kind { return fleet.KindOllama }

// Alive asks /api/version, which also gives the version.
func (ollama) Alive() Ask { return Ask{Name: AskAlive, Path: "/api/version"} }

func (ollama) Asks() []Ask { return []Ask{{Name: AskModels, Path: "/api/tags"}} }

// LoadAsks: Ollama has no load figures (ollama/ollama#3144). /api/ps says which models are in memory; it neither loads
// one nor keeps it.
func (ollama) LoadAsks() []Ask { return []Ask{{Name: AskLoad, Path: "/api/ps"}} }

func (ollama) Read(a Answer, _ fleet.Part, r *fleet.Report) error {
	switch a.Ask {
	case AskAlive:
		readAlive(a, r)
		if a.Status == 200 {
			_ = readVersion(a, r) // it is alive in any case
		}
		return nil
	case AskLoad:
		return readPS(a, r)
	default:
		return readTags(a, r)
	}
}

func (ollama) Supports(part fleet.Part) error {
	return wholeOnly(fleet.KindOllama, part, "it has neither ranks nor slots")
}

func (ollama) Address(fleet.Part) Addressing { return Addressing{} }

// readPS reads /api/ps.
func readPS(a Answer, r *fleet.Report) error {
	models, err := namedModels(a)
	if err != nil {
		return err
	}
	inMemory(models.all, r)
	return nil
}

// readTags reads /api/tags. The context is unknown: its context_length is the model's, of which Ollama chooses a part
// when it loads the model. It drops old messages of prompts that are longer, cuts them, or answers 400.
func readTags(a Answer, r *fleet.Report) error {
	models, err := namedModels(a)
	if err == nil {
		r.Models, r.MoreModels = models.all, models.more
	}
	return err
}

// namedModels reads a list of models. A name without a tag means ":latest", so such a model has both names.
func namedModels(a Answer) (*modelSet, error) {
	var tags struct {
		Models []struct {
			Name string `json:"name"`
		} `json:"models"`
	}
	if err := decode(a, &tags); err != nil {
		return nil, err
	}
	if tags.Models == nil {
		return nil, fmt.Errorf("engine: GET %s: no list of models", a.Path)
	}
	models := newModelSet()
	for _, m := range tags.Models {
		models.add(fleet.Model{ID: m.Name})
		if short, ok := strings.CutSuffix(m.Name, ":latest"); ok {
			models.add(fleet.Model{ID: short})
		}
	}
	return models, models.named(a, len(tags.Models))
}
