package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// moduleDirectory finds a module in the module cache, downloading it where that is still to be done.
func moduleDirectory(module string) (string, error) {
	command := exec.Command("go", "mod", "download", "-json", module)
	command.Stderr = os.Stderr
	answer, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("go mod download %s: %w", module, err)
	}
	var found struct{ Dir string }
	if err := json.Unmarshal(answer, &found); err != nil {
		return "", err
	}
	return found.Dir, nil
}

// moduleVersion is the version of a module in go.mod.
func moduleVersion(module string) (string, error) {
	answer, err := exec.Command("go", "list", "-m", "-f", "{{.Version}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("go list -m %s: %w", module, err)
	}
	return strings.TrimSpace(string(answer)), nil
}

// writeResources reads the discovery documents that Kubernetes keeps in its repository. They are recorded with every
// API switched on; what a server serves without being asked is the versions that are neither alpha nor beta.
func writeResources(out io.Writer) error {
	version, err := moduleVersion("k8s.io/api")
	if err != nil {
		return err
	}
	// k8s.io/api v0.36.4 belongs to Kubernetes v1.36.4.
	kubernetes := "v1" + strings.TrimPrefix(version, "v0")
	directory, err := moduleDirectory("k8s.io/kubernetes@" + kubernetes)
	if err != nil {
		return err
	}
	directory = filepath.Join(directory, "api", "discovery")
	fmt.Fprintf(out, "kubernetes %s\n", kubernetes)
	if err := writeResourceList(out, filepath.Join(directory, "api__v1.json"), "core", "v1"); err != nil {
		return err
	}
	var groups metav1.APIGroupList
	if err := readJSON(filepath.Join(directory, "apis.json"), &groups); err != nil {
		return err
	}
	for _, group := range groups.Groups {
		for _, version := range group.Versions {
			if strings.Contains(version.Version, "alpha") || strings.Contains(version.Version, "beta") {
				continue
			}
			file := filepath.Join(directory, "apis__"+group.Name+"__"+version.Version+".json")
			if err := writeResourceList(out, file, group.Name, version.Version); err != nil {
				return err
			}
		}
	}
	return nil
}

func writeResourceList(out io.Writer, file, group, version string) error {
	var list metav1.APIResourceList
	if err := readJSON(file, &list); err != nil {
		return err
	}
	fmt.Fprintf(out, "version %s %s\n", group, version)
	parent := ""
	for _, resource := range list.APIResources {
		name, subresource, isSubresource := strings.Cut(resource.Name, "/")
		if isSubresource {
			if name != parent {
				return fmt.Errorf("%s: %s does not follow its resource", file, resource.Name)
			}
			fmt.Fprintf(out, " %s %s verbs=%s", subresource, resource.Kind, strings.Join(resource.Verbs, ","))
			if resource.Group != "" {
				fmt.Fprintf(out, " group=%s", resource.Group)
			}
			if resource.Version != "" {
				fmt.Fprintf(out, " version=%s", resource.Version)
			}
			fmt.Fprintln(out)
			continue
		}
		parent = name
		scope := "cluster"
		if resource.Namespaced {
			scope = "namespaced"
		}
		fmt.Fprintf(out, "%s %s %s %s verbs=%s", name, resource.SingularName, resource.Kind, scope,
			strings.Join(resource.Verbs, ","))
		if len(resource.ShortNames) > 0 {
			fmt.Fprintf(out, " short=%s", strings.Join(resource.ShortNames, ","))
		}
		if len(resource.Categories) > 0 {
			fmt.Fprintf(out, " categories=%s", strings.Join(resource.Categories, ","))
		}
		if resource.StorageVersionHash != "" {
			fmt.Fprintf(out, " hash=%s", resource.StorageVersionHash)
		}
		fmt.Fprintln(out)
	}
	return nil
}

func readJSON(file string, into any) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}
