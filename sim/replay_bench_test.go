package sim_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/sim/drive"
	simfigures "github.com/warmpath/warmpath/sim/figures"
	"github.com/warmpath/warmpath/sim/rig"
	simtrace "github.com/warmpath/warmpath/sim/trace"
)

// BenchmarkReplay replays the full traces in the directory of the environment variable WARMPATH_TRACES on 8 endpoints
// at load 0.7.
func BenchmarkReplay(b *testing.B) {
	folder := os.Getenv("WARMPATH_TRACES")
	if folder == "" {
		b.Skip("WARMPATH_TRACES does not name the folder of the full traces")
	}
	preset, _ := rig.PresetNamed("reference")
	for _, name := range []string{"mooncake_conversation", "mooncake_synthetic", "coding_agent"} {
		f, err := os.Open(filepath.Join(folder, name+".jsonl"))
		if err != nil {
			b.Fatal(err)
		}
		trace, err := simtrace.Read(name, f, simtrace.FormatAuto)
		if err != nil {
			b.Fatal(err)
		}
		_ = f.Close()
		for _, by := range []string{"round_robin", "session", "least_ttft"} {
			c := policy.Config{Name: by}.WithDefaults()
			newPolicy, err := policy.New(c)
			if err != nil {
				b.Fatal(err)
			}
			reads := policy.ReadsContent(c)
			b.Run(name+"/"+by, func(b *testing.B) {
				var figures simfigures.Figures
				for b.Loop() {
					r := drive.Replay{
						Trace: trace, Fleet: rig.Even(8, preset.Engine), Policy: newPolicy, Content: reads, IDs: !reads,
						Load: 0.7, Seed: 1,
					}
					o, err := r.Run()
					if err != nil {
						b.Fatal(err)
					}
					figures = simfigures.Of(&r, o, simfigures.Objective{})
				}
				b.ReportMetric(100*figures.HitRate, "hit-%")
				b.ReportMetric(figures.TTFT.P90, "ttft-p90-ms")
			})
		}
	}
}
