//go:build unix && !solaris

package wholefile_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/warmpath/warmpath/internal/wholefile"
)

// TestClaim: one claims a file at a time, also when the file itself is replaced meanwhile.
func TestClaim(t *testing.T) {
	name := filepath.Join(t.TempDir(), "state")
	release, err := wholefile.Claim(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := wholefile.Write(name, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := wholefile.Claim(name); !errors.Is(err, wholefile.ErrClaimed) {
		t.Errorf("a second claim: %v", err)
	}
	release()
	again, err := wholefile.Claim(name)
	if err != nil {
		t.Fatal(err)
	}
	again()
	for range 2 {
		if _, err := wholefile.Claim(os.DevNull); err != nil {
			t.Errorf("a device: %v", err)
		}
	}
}
