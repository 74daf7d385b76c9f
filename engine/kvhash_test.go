package engine

import (
	"encoding/hex"
	"testing"
)

func count(n int) []uint32 {
	out := make([]uint32, n)
	for i := range out {
		out[i] = uint32(i)
	}
	return out
}

// TestVLLMHashes are vectors made with CPython's own pickle, and with a canonical CBOR encoder.
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
		cbor   bool
		seed   string
		root   string
		blocks []block
	}{
		{true, "0", "4e1195df020de59e0d65a33a4279f1183e7ae4e5d980e309f8b55adff2e61c3e", []block{
			{first, false, nil, "d830de3d42c00f25a2949b5d12d98642664a44872c1614c5b0147556276afc9c", 12687895063098490012},
			{second, true, nil, "fedd9e4abebebbe6f6cf96b682f08d316063fe2f22a5c552192dd62904fcccac", 1814341696565857452},
			{first, false, []string{"salt"}, "ba548bc465821c2e9b6a60ed95bf1a7bf56d08e438e8bcd7758f29086c085ab8", 8471034540256156344},
			{first, false, []string{"my-lora"}, "8b4227ad680a61cde1060f9e82d7d2994ea655458dd28e17c756e32d62e77a73", 14363917845617146483},
			{big, false, nil, "d4ee4b8e219ba2c2834cbbe0a7d48d4fb7c227f7efea3a7dcf3a7d91ba443f8c", 14932385579349065612},
			{big, false, []string{"my-lora", "salt"}, "d7c663ae994b6ca8d811bb24c12836b49ca9c128abe757a8cf04f75aa2537363", 14917319834400420707},
		}},
		{true, "123", "9bf5bb3e4bd40e48b2a893d8928a13c0289f9a74404437ffc44070135c95f290", []block{
			{first, false, nil, "d670b3ae2368b516c636e3212d43e83945146f5c0950f9c9a04651d32d6c2bc9", 11549008261880228809},
			{second, true, nil, "8d4a810634f9f887a184fc3353bb53ed5cb9dd7585ec4f77a493a2b520895532", 11859001142615299378},
			{first, false, []string{"salt"}, "17a413c7f4d9ee6c09fae548f40904c6a503fa08e317a86fe62eab5e03fcccee", 16586382897934290158},
		}},
		{false, "0", "1973e23848344dc43a988a9b478663803cfffe1243480253f9a3cf004b14aa7c", []block{
			{first, false, nil, "6358e31578a64b75ebe28cdb99d3beae65de82a2087321dc6ec84ae048faaaa6", 7982712666671721126},
			{second, true, nil, "3c3c50f324aefbdfbb124dfdc541efac3e94e59c40f4be08afe70601eeca92c8", 12675106281628537544},
			{first, false, []string{"salt"}, "0ac33126f1d2976fa3637f2231f134b1a802636547821e7060c83e84b69113c5", 6973892762702779333},
			{first, false, []string{"my-lora"}, "5f8ac371e7135414749e02e95110f0af532d8e99896c193c45136087e4690547", 4977428149943469383},
			{big, false, nil, "67f71e87035c56aca8bc405e8cdcc593fd0aa107eb2c7b712756e4932bd58097", 2834704336223043735},
			{big, false, []string{"my-lora", "salt"}, "ad6adc20b2b5e50953a673ad9e67432639ff62424c2126e24aa969e32b6b1075", 5379947654277697653},
		}},
		{false, "123", "8508caabf15277770fec9d07df755897d40add4758a1ca33355c8dc7e8525c69", []block{
			{first, false, nil, "2670ff7a4af1fb824c88637c1057d0fb9278ed6e0adef70aa31eee00f2c1e265", 11754093765323776613},
			{second, true, nil, "bb1b2c464b7b71aac3f30057351b800ddd545150ba6d132f871045be0e2cac87", 9732355477331553415},
			{first, false, []string{"my-lora"}, "8e8b34b816ac7d0c1d1f7262f985e03a956c26880abf36bfe2e6fd2e890ad96a", 16350033873524676970},
		}},
	} {
		h := NewVLLMHash(c.cbor, false, c.seed)
		if got := hex.EncodeToString(h.Root()); got != c.root {
			t.Errorf("cbor %v, seed %s: root %s, want %s", c.cbor, c.seed, got, c.root)
		}
		for i, b := range c.blocks {
			var parent []byte
			if b.after {
				parent = h.Digest(nil, first)
			}
			d := h.Digest(parent, b.tokens, b.extra...)
			if hex.EncodeToString(d) != b.digest || h.Number(d) != b.number {
				t.Errorf("cbor %v, seed %s, row %d: %x (%d), want %s (%d)", c.cbor, c.seed, i, d, h.Number(d), b.digest, b.number)
			}
		}
	}
}

// TestVLLMHashedBytes are the bytes under the first digest of seed 0.
func TestVLLMHashedBytes(t *testing.T) {
	root := NewVLLMHash(true, false, "0").Root()
	if got := hex.EncodeToString(cborBlock(root, count(16), nil)); got != "8358204e1195df020de59e0d65a33a4279f1183e7ae4e5d980e309f8b55adff2e61c3e90000102030405060708090a0b0c0d0e0ff6" {
		t.Error("CBOR: ", got)
	}
	root = NewVLLMHash(false, false, "0").Root()
	if got := hex.EncodeToString(framed(pickleBlock(root, count(16), nil))); got != "8005954a0000000000000043201973e23848344dc43a988a9b478663803cfffe1243480253f9a3cf004b14aa7c94284b004b014b024b034b044b054b064b074b084b094b0a4b0b4b0c4b0d4b0e4b0f74944e87942e" {
		t.Error("pickle: ", got)
	}
	// With XXH3 the digest is 16 bytes and chains as such.
	x := NewVLLMHash(true, true, "0")
	if d := x.Digest(x.Digest(nil, count(16)), count(16)); len(d) != 16 || len(x.Root()) != 16 {
		t.Errorf("an XXH3 digest of %d bytes", len(d))
	}
}
