package fault

import (
	"fmt"
	"testing"

	"github.com/warmpath/warmpath/fleet"
)

// TestUnsaid: what an engine said of a prompt it refused stands in no log.
func TestUnsaid(t *testing.T) {
	refused := fmt.Errorf("beside: %w", &legError{
		leg: fleet.LegPrefill, status: 400, said: "1 validation error: input_value='my secret'",
	})
	if got := Unsaid(refused).Error(); got != "Prefill error: Bad Request" {
		t.Errorf("logged as %q", got)
	}
	if got := Unsaid(ErrBroken); got != ErrBroken {
		t.Errorf("an error of our own became %v", got)
	}
}
