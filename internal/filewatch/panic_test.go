package filewatch

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// TestPanic: a file that a fault of this program stumbles over is looked at again.
func TestPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		n := 0
		follow(ctx, nil, nil, nil, slog.New(slog.DiscardHandler), func() {
			if n++; n == 1 {
				panic("a fault")
			}
		})
		if n < 3 {
			t.Errorf("looked %d times", n)
		}
	})
}
