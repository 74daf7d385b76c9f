package admission_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/warmpath/warmpath/route/internal/admission"
	"github.com/warmpath/warmpath/session"
)

// full is an engine whose cache is worth keeping.
type full struct{}

func (full) Room(int) int64                                    { return 100_000 }
func (full) Epoch(int) uint32                                  { return 1 }
func (full) MsPerToken(int) float64                            { return 0.1 }
func (full) WorthKeeping(float64, time.Duration) time.Duration { return time.Minute }
func (full) Back(_, _ time.Duration) float64                   { return 1 }

// BenchmarkHeldTenants is a turn that comes and is held, and one that is admitted, where so many tenants have a held
// turn each.
func BenchmarkHeldTenants(b *testing.B) {
	for _, tenants := range []int{1, 100, 9_000} {
		b.Run(strconv.Itoa(tenants), func(b *testing.B) {
			now := time.Unix(1_700_000_000, 0)
			t := admission.New(false, full{})
			t.AddEndpoint(0)
			t.Age(now)
			open := func(time.Time, string) []int { return []int{0} }
			n := uint64(0)
			next := func() *admission.Turn {
				n++
				return &admission.Turn{
					Key: session.KeyFrom(1, n), Pool: "m", Home: -1, Tokens: 1000, Tenant: strconv.FormatUint(n, 10),
				}
			}
			for range tenants {
				t.Hold(now, *next())
			}
			for b.Loop() {
				turn := next()
				_ = t.Check(now, turn, 0)
				t.Hold(now, *turn)
				lease, ok := t.Admit(now, open)
				if !ok {
					b.Fatal("nothing is admitted")
				}
				t.EndHold(lease)
			}
		})
	}
}
