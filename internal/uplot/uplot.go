// Package uplot is the library that draws charts in a browser: uPlot 1.6.32 as it was released, with its licence. It
// owns these files alone; the pages that embed them own what is drawn.
package uplot

import _ "embed"

// Style is the library's style sheet.
//
//go:embed uPlot.min.css
var Style string

//go:embed uPlot.iife.min.js
var script string

//go:embed LICENSE
var licence string

// Script is the library, behind its licence. It defines uPlot.
func Script() string { return "/*\nuPlot\n" + licence + "\n*/\n" + script }
