package main

import (
	"fmt"
	"reflect"
	"sort"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// served lists the packages whose kinds a default API server speaks: the resources it serves, and the kinds that
// only appear in requests and answers (discovery, admission reviews).
var served = []struct {
	version schema.GroupVersion
	add     func(*runtime.Scheme) error
}{
	{corev1.SchemeGroupVersion, corev1.AddToScheme},
	{admissionv1.SchemeGroupVersion, admissionv1.AddToScheme},
	{admissionregistrationv1.SchemeGroupVersion, admissionregistrationv1.AddToScheme},
	{apidiscoveryv2.SchemeGroupVersion, apidiscoveryv2.AddToScheme},
	{apiextensionsv1.SchemeGroupVersion, apiextensionsv1.AddToScheme},
	{apiregistrationv1.SchemeGroupVersion, apiregistrationv1.AddToScheme},
	{appsv1.SchemeGroupVersion, appsv1.AddToScheme},
	{authenticationv1.SchemeGroupVersion, authenticationv1.AddToScheme},
	{authorizationv1.SchemeGroupVersion, authorizationv1.AddToScheme},
	{autoscalingv1.SchemeGroupVersion, autoscalingv1.AddToScheme},
	{autoscalingv2.SchemeGroupVersion, autoscalingv2.AddToScheme},
	{batchv1.SchemeGroupVersion, batchv1.AddToScheme},
	{certificatesv1.SchemeGroupVersion, certificatesv1.AddToScheme},
	{coordinationv1.SchemeGroupVersion, coordinationv1.AddToScheme},
	{discoveryv1.SchemeGroupVersion, discoveryv1.AddToScheme},
	{eventsv1.SchemeGroupVersion, eventsv1.AddToScheme},
	{flowcontrolv1.SchemeGroupVersion, flowcontrolv1.AddToScheme},
	{networkingv1.SchemeGroupVersion, networkingv1.AddToScheme},
	{nodev1.SchemeGroupVersion, nodev1.AddToScheme},
	{policyv1.SchemeGroupVersion, policyv1.AddToScheme},
	{rbacv1.SchemeGroupVersion, rbacv1.AddToScheme},
	{resourcev1.SchemeGroupVersion, resourcev1.AddToScheme},
	{schedulingv1.SchemeGroupVersion, schedulingv1.AddToScheme},
	{storagev1.SchemeGroupVersion, storagev1.AddToScheme},
}

// metaKinds are served in every group version (options, status, tables); they are written once, under meta.k8s.io/v1.
var metaKinds = []any{
	metav1.Status{}, metav1.ListOptions{}, metav1.GetOptions{}, metav1.DeleteOptions{}, metav1.CreateOptions{},
	metav1.UpdateOptions{}, metav1.PatchOptions{}, metav1.WatchEvent{}, metav1.APIVersions{}, metav1.APIGroup{},
	metav1.APIGroupList{}, metav1.APIResourceList{}, metav1.Table{}, metav1.TableOptions{},
	metav1.PartialObjectMetadata{}, metav1.PartialObjectMetadataList{}, metav1.List{},
}

type kindRow struct {
	version schema.GroupVersion
	kind    string
	goType  reflect.Type
}

// kinds returns every kind, sorted by group, version and name.
func kinds() ([]kindRow, error) {
	rows := []kindRow{}
	for _, object := range metaKinds {
		t := reflect.TypeOf(object)
		rows = append(rows, kindRow{schema.GroupVersion{Group: "meta.k8s.io", Version: "v1"}, t.Name(), t})
	}
	meta := reflect.TypeFor[metav1.Status]().PkgPath()
	for _, group := range served {
		scheme := runtime.NewScheme()
		if err := group.add(scheme); err != nil {
			return nil, fmt.Errorf("%s: %w", group.version, err)
		}
		for kind, t := range scheme.KnownTypes(group.version) {
			// Options, watch events and the like are added to every group by registration.
			if t.PkgPath() == meta {
				continue
			}
			rows = append(rows, kindRow{group.version, kind, t})
		}
	}
	sort.Slice(rows, func(i, j int) bool {
		a, b := rows[i], rows[j]
		if order := strings.Compare(a.version.String(), b.version.String()); order != 0 {
			return order < 0
		}
		return a.kind < b.kind
	})
	return rows, nil
}
