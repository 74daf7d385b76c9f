package size

import (
	"github.com/warmpath/warmpath/fit"
	"github.com/warmpath/warmpath/route/learnt"
)

// Export is what the estimates are made of.
func (m *Model) Export() learnt.Size {
	return learnt.Size{
		Text:          m.ratios.line,
		Medium:        float64(m.ratios.medium),
		TokensPerByte: m.tokensPerByte,
		Counted:       m.counted,
		Output:        float64(m.output),
	}
}

// Empty reports whether no prompt has been counted yet.
func (m *Model) Empty() bool { return m.counted == 0 }

// Restore takes in what Export told.
func (m *Model) Restore(l *learnt.Size) {
	m.tokensPerByte, m.counted, m.output = plausible(l.TokensPerByte), l.Counted, fit.Mean(l.Output)
	if l.Medium > 0 {
		m.ratios.line, m.ratios.medium = l.Text, fit.Mean(l.Medium)
	}
}
