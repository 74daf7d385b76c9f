package grid

import "math"

// interval is a mean over seeds, and between which bounds the true one lies with 95 % confidence (Student's t). With
// one seed both bounds are the mean.
type interval struct{ mean, low, high float64 }

// intervalOf takes the values of the seeds for independent and normal.
func intervalOf(values []float64) interval {
	n := float64(len(values))
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	mean := sum / n
	if len(values) < 2 {
		return interval{mean, mean, mean}
	}
	squares := 0.0
	for _, v := range values {
		squares += (v - mean) * (v - mean)
	}
	half := student(len(values)-1) * math.Sqrt(squares/(n-1)/n)
	return interval{mean, mean - half, mean + half}
}

// student is the 97.5 % quantile of Student's distribution, from the tables; beyond 30 degrees of freedom by its
// expansion about that of the normal distribution (Abramowitz and Stegun 26.7.5), right to three digits.
func student(freedom int) float64 {
	table := [...]float64{
		12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
		2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
	}
	if freedom <= len(table) {
		return table[freedom-1]
	}
	const z = 1.959964
	return z + (z*z*z+z)/(4*float64(freedom))
}

// ratioOf is how many times as large a is as b, seed by seed: chance that is common to both cancels out. The mean is
// the geometric.
func ratioOf(a, b []float64) interval {
	logs := make([]float64, len(a))
	for i := range a {
		if a[i] <= 0 || b[i] <= 0 {
			return interval{math.NaN(), math.NaN(), math.NaN()}
		}
		logs[i] = math.Log(a[i] / b[i])
	}
	i := intervalOf(logs)
	return interval{math.Exp(i.mean), math.Exp(i.low), math.Exp(i.high)}
}
