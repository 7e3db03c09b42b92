// Package spelling finds the name that somebody meant who has written another.
package spelling

// Nearest returns the candidate that differs from word by the fewest edits, the
// first of several, or "" when each differs by more than most of them. An edit
// inserts, removes or replaces one byte.
func Nearest(word string, candidates []string, most int) string {
	best, least := "", most+1
	for _, c := range candidates {
		if d := edits(word, c); d < least {
			best, least = c, d
		}
	}
	return best
}

// edits is the Levenshtein distance of two words.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
