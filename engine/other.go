package engine

import "github.com/warmpath/warmpath/fleet"

// other is any server with the OpenAI API.
type other struct{}

func (other) Kind() fleet.Kind { return fleet.KindOther }

// Alive asks /health, or the list of models if that path does not exist. LiteLLM's own path comes first: its /health
// has every model answer a prompt (LiteLLM 1.108, "Health Checks").
func (other) Alive() Ask {
	return Ask{Name: AskAlive, Path: "/health/liveliness", Older: []string{"/health", "/v1/models"}}
}

func (other) Asks() []Ask { return []Ask{{Name: AskModels, Path: "/v1/models"}} }

// LoadAsks: LM Studio, which loads models on demand, says which are in memory, and llama-swap, which starts an engine
// for each, which run. LM Studio comes first: it says 200 to every path.
func (other) LoadAsks() []Ask {
	return []Ask{{Name: AskResident, Path: "/api/v0/models", Older: []string{"/running"}}}
}

func (other) Read(a Answer, _ fleet.Part, r *fleet.Report) error {
	switch a.Ask {
	case AskAlive:
		readAlive(a, r)
		return nil
	case AskResident:
		return readResident(a, r)
	default:
		return readModels(a, r)
	}
}

func (other) Supports(part fleet.Part) error {
	return wholeOnly(fleet.KindOther, part, "its kind was not recognised and none is stated (kind)")
}

func (other) Address(fleet.Part) Addressing { return Addressing{} }
