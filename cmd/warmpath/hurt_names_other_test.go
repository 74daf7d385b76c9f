//go:build unix && !linux

package main

import "testing"

func hurtByNames(t *testing.T, _ string) { t.Skip("needs mounts of Linux") }
