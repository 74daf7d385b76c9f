package engine

import (
	"crypto/sha256"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func upTo(n uint32) []uint32 {
	var out []uint32
	for i := uint32(1); i <= n; i++ {
		out = append(out, i)
	}
	return out
}

// The expected values were computed from the algorithms' description, apart from this code.
func TestTRTLLMHashVectors(t *testing.T) {
	salted := TRTLLMScope{Salt: TRTLLMSalt("tenant-a"), HasSalt: true}
	if salted.Salt != 16248643848220682112 {
		t.Errorf("salt id of tenant-a is %d", salted.Salt)
	}
	if got := TRTLLMSalt("abc"); got != 16919744041952114874 {
		t.Errorf("salt id of abc is %d", got)
	}
	thousand := slices.Repeat([]uint32{1000}, 100)
	for _, tt := range []struct {
		name   string
		tokens []uint32
		size   int
		scope  TRTLLMScope
		want   []uint64
	}{
		{"plain", upTo(10), 4, TRTLLMScope{}, []uint64{924206229973855, 2728178455351807326, 5840390857880430736}},
		{"salted", upTo(10), 4, salted, []uint64{8961321873627678067, 10690226908068462878, 12278923072913873728}},
		{"repeated", thousand, 32, TRTLLMScope{}, []uint64{16685880865262758201, 12864654384015858667, 12921971827901742268, 7712948735410755413}},
		{"one token has no block", []uint32{7}, 4, TRTLLMScope{}, nil},
		{"the last token is no part", []uint32{0, 9}, 4, TRTLLMScope{}, []uint64{2654435832}},
		{"nothing", nil, 4, TRTLLMScope{}, nil},
		{"size 0", upTo(10), 0, TRTLLMScope{}, nil},
		{"negative size", upTo(10), -3, TRTLLMScope{}, nil},
	} {
		if got := TRTLLMChainV1(tt.tokens, tt.size, tt.scope); !slices.Equal(got, tt.want) {
			t.Errorf("v1, %s: got %d, want %d", tt.name, got, tt.want)
		}
	}
	if got := TRTLLMWireV2(TRTLLMRootV2(TRTLLMScope{})); got != "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d" {
		t.Errorf("root key %s", got)
	}
	wires, whole := []uint64(nil), []string(nil)
	for _, key := range TRTLLMChainV2(upTo(10), 4, TRTLLMScope{}) {
		whole, wires = append(whole, TRTLLMWireV2(key)), append(wires, TRTLLMWireV264(key))
	}
	if want := []string{
		"e432228522a304ab556d66e6e40979ad05575f28b19b554264dd3c6277aaf073",
		"756b1d258c63ccc0cbd6284ab33b043c81175086163f9d2821f5764079efb75c",
		"2c2a73c72b0bccbf74a5d46d131499ca726b1d2a650836cb548a10fb3c8acf2e",
	}; !slices.Equal(whole, want) {
		t.Errorf("v2: got %v", whole)
	}
	if want := []uint64{16443243144690205867, 8460888372051954880, 3182483385948556479}; !slices.Equal(wires, want) {
		t.Errorf("v2_64: got %d", wires)
	}
	wires = nil
	for _, key := range TRTLLMChainV2(upTo(10), 4, salted) {
		wires = append(wires, TRTLLMWireV264(key))
	}
	if want := []uint64{13027032062901490270, 16507744845882362375, 10823326765095235344}; !slices.Equal(wires, want) {
		t.Errorf("salted v2_64: got %d", wires)
	}
}

func TestParseTRTLLMHash(t *testing.T) {
	for name, want := range map[string]TRTLLMHash{"": TRTLLMHashV1, "v1_block_key": TRTLLMHashV1, "v2_sha256": TRTLLMHashV2, "v2_sha256_64": TRTLLMHashV264} {
		if got, err := ParseTRTLLMHash(name); err != nil || got != want {
			t.Errorf("%q: %v, %v", name, got, err)
		}
	}
	if _, err := ParseTRTLLMHash("v3"); err == nil {
		t.Error("v3 was taken")
	}
}

// Two prompts that begin alike have the hashes of that beginning in common and none after it; salt, adapter and each token matter.
func TestTRTLLMChainsNamePrefixes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tokens := rapid.SliceOfN(rapid.Uint32(), 2, 60).Draw(t, "tokens")
		size := rapid.IntRange(1, 9).Draw(t, "size")
		at := rapid.IntRange(0, len(tokens)-2).Draw(t, "at")
		other := slices.Clone(tokens)
		other[at]++
		a, b := TRTLLMChainV1(tokens, size, TRTLLMScope{}), TRTLLMChainV1(other, size, TRTLLMScope{})
		c, d := TRTLLMChainV2(tokens, size, TRTLLMScope{}), TRTLLMChainV2(other, size, TRTLLMScope{})
		if len(a) != (len(tokens)-1+size-1)/size || len(a) != len(c) {
			t.Fatalf("%d tokens in blocks of %d: %d and %d", len(tokens), size, len(a), len(c))
		}
		for i := range a {
			if same := i < at/size; (a[i] == b[i]) != same || (c[i] == d[i]) != same {
				t.Fatalf("token %d changed, block %d the same: %v and %v", at, i, a[i] == b[i], c[i] == d[i])
			}
		}
		salted := TRTLLMScope{Salt: rapid.Uint64().Draw(t, "salt"), HasSalt: true}
		lora := TRTLLMScope{LoRA: rapid.Uint64().Draw(t, "lora"), HasLoRA: true}
		roots := [][sha256.Size]byte{TRTLLMRootV2(TRTLLMScope{}), TRTLLMRootV2(salted), TRTLLMRootV2(lora)}
		if roots[0] == roots[1] || roots[0] == roots[2] || roots[1] == roots[2] {
			t.Fatal("two scopes have one root")
		}
		if TRTLLMChainV1(tokens, size, salted)[0] == a[0] || TRTLLMChainV1(tokens, size, lora)[0] == a[0] {
			t.Fatal("salt or adapter do not matter")
		}
	})
}
