package size

import "github.com/warmpath/warmpath/fit"

// Learnt is the estimates for one model as plain values.
type Learnt struct {
	Ratios        []float64
	Covariance    []float64 // row by row
	Medium        float64   // tokens of an image
	TokensPerByte float64
	Counted       int
	Output        float64
}

// Export is what the estimates are made of.
func (m *Model) Export() Learnt {
	l := Learnt{Ratios: m.ratios.ratio[:], Medium: float64(m.ratios.medium), TokensPerByte: m.tokensPerByte, Counted: m.counted, Output: float64(m.output)}
	l.Ratios = append([]float64(nil), l.Ratios...)
	for i := range m.ratios.cov {
		l.Covariance = append(l.Covariance, m.ratios.cov[i][:]...)
	}
	return l
}

// Empty reports whether no prompt has been counted yet.
func (m *Model) Empty() bool { return m.counted == 0 }

// Restore takes in what Export told. Where the features of a text are others by now, their ratios stay as they are.
func (m *Model) Restore(l *Learnt) {
	m.tokensPerByte, m.counted, m.output = l.TokensPerByte, l.Counted, fit.Mean(l.Output)
	if len(l.Ratios) != features || len(l.Covariance) != features*features {
		return
	}
	m.ratios.medium = fit.Mean(l.Medium)
	copy(m.ratios.ratio[:], l.Ratios)
	for i := range m.ratios.cov {
		copy(m.ratios.cov[i][:], l.Covariance[i*features:])
	}
}
