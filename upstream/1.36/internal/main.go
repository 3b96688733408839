// Command internal writes down how the API server's own structures of pods and workloads are laid out, because its messages
// show them: for each structure its name, then a line a field with Go's name, the place in the API's object and the type.
//
//	internal > crates/validation/data/internal.txt
//
// A slash in a place goes down, a caret looks beside the object. A star and brackets mean as in Go; a question mark says that
// the field is left out when it is empty.
package main

import (
	"fmt"
	"os"
	"reflect"
	"sort"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/kubernetes/pkg/apis/apps"
	"k8s.io/kubernetes/pkg/apis/batch"
	"k8s.io/kubernetes/pkg/apis/core"
)

var out = map[string][]string{}

func tag(f reflect.StructField) (string, bool) {
	parts := strings.Split(f.Tag.Get("json"), ",")
	return parts[0], strings.Contains(f.Tag.Get("json"), "omitempty")
}

// jsonName tells what a field is called in the API, which may be in an embedded structure there.
func jsonName(t reflect.Type, goName string) (string, reflect.Type) {
	if t == nil {
		return "", nil
	}
	f, ok := t.FieldByName(goName)
	if !ok {
		return "", nil
	}
	name, _ := tag(f)
	return name, f.Type
}

func deref(t reflect.Type) reflect.Type {
	for t != nil && (t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice) {
		t = t.Elem()
	}
	return t
}

func describe(t, ext reflect.Type) string {
	switch t {
	case reflect.TypeOf(resource.Quantity{}):
		return "quantity"
	case reflect.TypeOf(metav1.Time{}):
		return "time"
	case reflect.TypeOf(intstr.IntOrString{}):
		return "number-or-text"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return "*" + describe(t.Elem(), deref(ext))
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		return "[]" + describe(t.Elem(), deref(ext))
	case reflect.Map:
		return "map"
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "flag"
	case reflect.Struct:
		visit(t, deref(ext))
		return t.Name()
	default:
		return "number"
	}
}

func fields(t, ext reflect.Type) (list []string) {
	for i := 0; i < t.NumField(); i++ {
		f := t.Field(i)
		if !f.IsExported() {
			continue
		}
		if t.PkgPath() == "k8s.io/apimachinery/pkg/apis/meta/v1" {
			name, omit := tag(f)
			if name == "ownerReferences" || name == "managedFields" {
				continue
			}
			kind := describe(f.Type, f.Type)
			if name == "ownerReferences" || name == "managedFields" {
				continue
			}
			if omit && f.Type.Kind() != reflect.Struct {
				kind += "?"
			} else if strings.Contains(f.Tag.Get("json"), "omitzero") {
				kind += "?"
			}
			list = append(list, fmt.Sprintf("%s %s %s", name, name, kind))
			continue
		}
		if f.Anonymous && f.Type.Name() == "ObjectMeta" {
			for _, l := range fields(f.Type, f.Type) {
				p := strings.Split(l, " ")
				if p[0] != "managedFields" && p[0] != "ownerReferences" {
					list = append(list, fmt.Sprintf("%s metadata/%s %s", p[0], p[1], p[2]))
				}
			}
			continue
		}
		if f.Anonymous && f.Tag.Get("json") == "" {
			e := ext
			if ef, ok := ext.FieldByName(f.Name); ok && ef.Anonymous {
				e = ef.Type
			}
			list = append(list, fields(f.Type, e)...)
			continue
		}
		name, et := jsonName(ext, f.Name)
		goName := f.Name
		if n, _ := tag(f); n != "" && n != "-" {
			goName = n
		}
		if name == "" {
			name = "^" + strings.ToLower(f.Name[:1]) + f.Name[1:]
		}
		kind := describe(f.Type, et)
		if kind == "*PodSecurityContext" {
			kind = "PodSecurityContext"
		}
		list = append(list, fmt.Sprintf("%s %s %s", goName, name, kind))
	}
	return
}

func visit(t, ext reflect.Type) {
	if _, ok := out[t.Name()]; ok {
		return
	}
	out[t.Name()] = nil
	if ext == nil {
		fmt.Fprintln(os.Stderr, "no external type for", t)
		return
	}
	out[t.Name()] = fields(t, ext)
}

func pair(t, ext any) { visit(reflect.TypeOf(t), reflect.TypeOf(ext)) }

func main() {
	pair(core.PodTemplateSpec{}, v1.PodTemplateSpec{})
	pair(core.PodIP{}, v1.PodIP{})
	pair(core.HostIP{}, v1.HostIP{})
	pair(core.PodResourceClaim{}, v1.PodResourceClaim{})
	pair(core.EphemeralContainer{}, v1.EphemeralContainer{})
	pair(core.VolumeNodeAffinity{}, v1.VolumeNodeAffinity{})
	pair(apps.DeploymentStrategy{}, appsv1.DeploymentStrategy{})
	pair(apps.DaemonSetUpdateStrategy{}, appsv1.DaemonSetUpdateStrategy{})
	pair(apps.StatefulSetUpdateStrategy{}, appsv1.StatefulSetUpdateStrategy{})
	pair(batch.PodFailurePolicy{}, batchv1.PodFailurePolicy{})
	pair(batch.SuccessPolicy{}, batchv1.SuccessPolicy{})
	pair(batch.UncountedTerminatedPods{}, batchv1.UncountedTerminatedPods{})
	names := []string{}
	for n := range out {
		names = append(names, n)
	}
	sort.Strings(names)
	for _, n := range names {
		fmt.Println(n)
		for _, f := range out[n] {
			fmt.Println(" " + f)
		}
	}
}
