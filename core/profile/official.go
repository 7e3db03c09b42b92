package profile

import (
	"embed"
	"fmt"
)

// officialFiles are the very files of 08#official-manifests.
//
//go:embed official/*.json
var officialFiles embed.FS

// officialNames names those files, core first.
var officialNames = [...]string{"core", "text", "delegation", "commerce"}

// Official returns the four official manifests, core first. They are exempt
// from the rule of the reserved prefix, and their digests are computed from
// the files here, at each call (08#official-manifests).
func Official() []*Manifest {
	all := make([]*Manifest, 0, len(officialNames))
	for _, name := range officialNames {
		all = append(all, official(name))
	}
	return all
}

// OfficialByID returns the official manifest with the given ID, nil for none.
func OfficialByID(id string) *Manifest {
	for _, m := range Official() {
		if m.ID == id {
			return m
		}
	}
	return nil
}

func official(name string) *Manifest {
	data, err := officialFiles.ReadFile("official/" + name + ".json")
	if err != nil {
		panic(fmt.Sprintf("ace: internal error: official manifest %s: %v", name, err))
	}
	m, err := parseManifest(data)
	if err != nil {
		panic(fmt.Sprintf("ace: internal error: official manifest %s: %v", name, err))
	}
	return m
}
