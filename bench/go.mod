module github.com/warmpath/warmpath/bench

go 1.26.0
