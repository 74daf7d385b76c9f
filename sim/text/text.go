package text

import (
	"math/rand/v2"
	"strings"
)

// TokenBytes is the number of bytes that simulated engines count as one token.
const TokenBytes = 4

// Of is readable nonsense of exactly tokens×TokenBytes bytes, see Sized.
func Of(seed uint64, tokens int) string { return Sized(seed, tokens*TokenBytes) }

// Sized is readable nonsense of a size in bytes: sentences of ASCII words, the last byte a full stop. Equal seeds give
// equal texts, and a longer text of one seed begins with the words of a shorter one.
func Sized(seed uint64, size int) string {
	if size <= 0 {
		return ""
	}
	rng := rand.New(rand.NewPCG(seed, 0x74657874))
	var b strings.Builder
	b.Grow(size + 16)
	left := 0 // words left in the sentence
	for b.Len() < size {
		r := rng.Uint64()
		word := words[r%uint64(len(words))]
		switch {
		case left == 0:
			left = 5 + int(r>>32%9)
			b.WriteByte(word[0] - 'a' + 'A')
			b.WriteString(word[1:])
		default:
			b.WriteString(word)
		}
		if left--; left == 0 {
			b.WriteByte('.')
		}
		b.WriteByte(' ')
	}
	return b.String()[:size-1] + "."
}

var words = strings.Fields(`
	about above across after again air also always amber among answer any apple arrow autumn away
	back basket bay beach bear bell below bench best between bird blue boat book both bottle branch bread bridge
	bright brook brown build butter button cabin call came candle card careful carry castle catch cedar chair change
	chapter cheese cherry child circle city clay clear clock cloud coast coat cold color come copper corner cotton count
	country cover crane creek cross crown cup daily dance dark day deep deer desert dinner door down draw dream dress drum
	dust each early earth east easy edge eight empty engine enough evening every face fall family farm fast feather
	fence few field fifth find fire first fish five flag flat floor flour flower fog follow forest fork found four fox
	fresh friend frost fruit full garden gate gentle giant gift glass gold good grain grass gray great green ground
	group grow guest half hall hand happy harbor hard hat hear heavy hedge help here high hill hold honey hope horn horse
	hour house ice inside iron island ivory jacket journey jump keep kettle key kind kitchen kite ladder lake lamp
	land lantern large late leaf learn left lemon letter light like lime line lion list little long look loud low lunch
	maple map march market meadow meal measure meet middle mile milk mill minute mirror month moon morning mountain
	mouse music narrow near needle nest never new next night nine north note number oak ocean often old olive only open
	orange orchard other outside over owl page paint pair paper park path pear pebble pencil pepper piano picture pine
	place plain plan plate pocket pond present purple quick quiet rabbit rain reach ready red rest ribbon rice ridge
	right ring river road rock roof room root rope rose round row sail salt sand school sea second seed seven shadow
	sheep shelf shell ship shoe shop shore short silver simple sing six sky sleep slow small smile smoke snow soft
	song soup south space spoon spring square stair star start station step stone story street summer sun sweet
	table tall tea teach tell ten thank there thing third three thunder time today together tower town train tree
	turn twelve two under until valley very village violet visit voice wagon wait walk wall warm water wave
	week west wheat wheel white wide wild wind window winter wolf wonder wood wool word work yellow young`)
