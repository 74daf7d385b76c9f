package kv

import (
	"encoding/hex"
	"slices"
	"testing"
)

func count(n int) []uint32 {
	out := make([]uint32, n)
	for i := range out {
		out[i] = uint32(i)
	}
	return out
}

// TestVLLMHashes are vectors made with CPython's own pickle.
func TestVLLMHashes(t *testing.T) {
	first := count(16)
	second := count(32)[16:]
	big := []uint32{151644, 872, 198, 15339, 1879, 30, 151645, 198, 151644, 77091, 198, 1, 65535, 65536, 255, 256}
	type block struct {
		tokens []uint32
		after  bool // the first block of the same seed without extra keys
		extra  []string
		digest string
		number uint64
	}
	for _, c := range []struct {
		seed   string
		root   string
		blocks []block
	}{
		{"0", "1973e23848344dc43a988a9b478663803cfffe1243480253f9a3cf004b14aa7c", []block{
			{
				first, false, nil, "6358e31578a64b75ebe28cdb99d3beae65de82a2087321dc6ec84ae048faaaa6",
				7982712666671721126,
			},
			{
				second, true, nil, "3c3c50f324aefbdfbb124dfdc541efac3e94e59c40f4be08afe70601eeca92c8",
				12675106281628537544,
			},
			{
				first, false,
				[]string{"salt"},
				"0ac33126f1d2976fa3637f2231f134b1a802636547821e7060c83e84b69113c5", 6973892762702779333,
			},
			{
				first, false,
				[]string{"my-lora"},
				"5f8ac371e7135414749e02e95110f0af532d8e99896c193c45136087e4690547", 4977428149943469383,
			},
			{big, false, nil, "67f71e87035c56aca8bc405e8cdcc593fd0aa107eb2c7b712756e4932bd58097", 2834704336223043735},
			{
				big, false,
				[]string{"my-lora", "salt"},
				"ad6adc20b2b5e50953a673ad9e67432639ff62424c2126e24aa969e32b6b1075", 5379947654277697653,
			},
		}},
		{"123", "8508caabf15277770fec9d07df755897d40add4758a1ca33355c8dc7e8525c69", []block{
			{
				first, false, nil, "2670ff7a4af1fb824c88637c1057d0fb9278ed6e0adef70aa31eee00f2c1e265",
				11754093765323776613,
			},
			{
				second, true, nil, "bb1b2c464b7b71aac3f30057351b800ddd545150ba6d132f871045be0e2cac87",
				9732355477331553415,
			},
			{
				first, false,
				[]string{"my-lora"},
				"8e8b34b816ac7d0c1d1f7262f985e03a956c26880abf36bfe2e6fd2e890ad96a", 16350033873524676970,
			},
		}},
	} {
		h := newVLLMHash(c.seed)
		if got := hex.EncodeToString(h.root); got != c.root {
			t.Errorf("seed %s: root %s, want %s", c.seed, got, c.root)
		}
		for i, b := range c.blocks {
			var parent []byte
			if b.after {
				parent = h.digest(nil, first)
			}
			d := h.digest(parent, b.tokens, b.extra...)
			if hex.EncodeToString(d) != b.digest || vllmNumber(d) != b.number {
				t.Errorf("seed %s, row %d: %x (%d), want %s (%d)", c.seed, i, d, vllmNumber(d), b.digest, b.number)
			}
		}
	}
}

// TestVLLMHashedBytes are the bytes under the first digest of seed 0.
func TestVLLMHashedBytes(t *testing.T) {
	root := newVLLMHash("0").root
	if got := hex.EncodeToString(framed(pickleBlock(root, count(16), nil))); got != "8005954a0000000000000043201973e23848344dc43a988a9b478663803cfffe1243480253f9a3cf004b14aa7c94284b004b014b024b034b044b054b064b074b084b094b0a4b0b4b0c4b0d4b0e4b0f74944e87942e" {
		t.Error("pickle: ", got)
	}
}

// TestTRTLLMBlocks: the expected values were computed from the algorithm's description, apart from this code.
func TestTRTLLMBlocks(t *testing.T) {
	upTo10 := count(11)[1:]
	thousand := slices.Repeat([]uint32{1000}, 100)
	for _, tt := range []struct {
		name   string
		blocks [][]uint32
		want   []uint64
	}{
		{
			"plain",
			[][]uint32{upTo10[:4], upTo10[4:8], upTo10[8:9]},
			[]uint64{924206229973855, 2728178455351807326, 5840390857880430736},
		},
		{
			"repeated",
			[][]uint32{thousand[:32], thousand[:32], thousand[:32], thousand[:3]},
			[]uint64{16685880865262758201, 12864654384015858667, 12921971827901742268, 7712948735410755413},
		},
		{"zero", [][]uint32{{0}}, []uint64{2654435832}},
	} {
		var got []uint64
		parent := uint64(0)
		for _, block := range tt.blocks {
			parent = trtllmBlock(parent, block)
			got = append(got, parent)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %d, want %d", tt.name, got, tt.want)
		}
	}
}
