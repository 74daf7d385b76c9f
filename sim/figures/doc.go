// Package figures sums up a run of package drive: times, shares of prompts found in caches, how evenly work was spread.
//
// It reads an outcome and changes nothing.
package figures
