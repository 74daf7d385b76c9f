package enginetest

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// exposition builds Prometheus text: one family after another, one sample per rank.
type exposition struct{ b []byte }

// family begins a metric.
func (x *exposition) family(name, kind, help string) {
	x.b = append(x.b, "# HELP "+name+" "+help+"\n# TYPE "+name+" "+kind+"\n"...)
}

// sample adds one value; labels come as pairs of name and value.
func (x *exposition) sample(name string, value float64, labels ...string) {
	x.b = append(x.b, name...)
	for i := 0; i+1 < len(labels); i += 2 {
		sep := byte(',')
		if i == 0 {
			sep = '{'
		}
		x.b = append(append(x.b, sep), labels[i]+`="`+labelEscaper.Replace(labels[i+1])+`"`...)
	}
	if len(labels) > 0 {
		x.b = append(x.b, '}')
	}
	x.b = append(x.b, ' ')
	x.b = strconv.AppendFloat(x.b, value, 'g', -1, 64)
	x.b = append(x.b, '\n')
}

var labelEscaper = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

func (x *exposition) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write(x.b)
}

// ratio is a/b, 0 for 0/0.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// ms is a duration in milliseconds.
func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
