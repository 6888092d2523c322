{{- /* SPDX-License-Identifier: Apache-2.0 */ -}}
{{- /* The templates below change .object, one of config/'s, as .values say; they print nothing. .tag is the tag of images for which no value has one. */ -}}

{{- /* "yes", unless somebody else applies the object. */ -}}
{{- define "cleave.wanted" -}}
{{- $kind := .object.kind -}}
{{- if not (or (and (eq $kind "CustomResourceDefinition") (not .values.crds.install)) (and (has $kind (list "Namespace" "ResourceQuota")) (not .values.namespaces.create))) -}}
yes
{{- end -}}
{{- end -}}

{{- define "cleave.values" -}}
{{- $kind := .object.kind -}}
{{- $component := get (.object.metadata.labels | default dict) "app.kubernetes.io/component" -}}
{{- $isScheduler := eq $component "scheduler" -}}
{{- $deployment := ternary .values.scheduler .values.operator $isScheduler -}}
{{- if eq $component "webhook-certificate" -}}
  {{- $deployment = include "cleave.keeper" .values.scheduler | fromJson -}}
{{- end -}}
{{- if eq $kind "CustomResourceDefinition" -}}
  {{- include "cleave.annotate" (dict "metadata" .object.metadata "more" (dict "helm.sh/resource-policy" "keep")) -}}
{{- else if eq $kind "NetworkPolicy" -}}
  {{- include "cleave.network" . -}}
{{- else if has $kind (list "ServiceMonitor" "PrometheusRule") -}}
  {{- include "cleave.monitoring" . -}}
{{- else if eq $kind "PodDisruptionBudget" -}}
  {{- /* With one pod it would keep a node from being drained. */ -}}
  {{- $_ := set .object.spec "minAvailable" (min .object.spec.minAvailable (sub $deployment.replicas 1)) -}}
{{- else if eq $kind "Deployment" -}}
  {{- $_ := set .object.spec "replicas" $deployment.replicas -}}
  {{- include "cleave.workload" (dict "object" .object "values" .values "tag" .tag "of" $deployment) -}}
  {{- $pod := .object.spec.template.spec -}}
  {{- $_ = set $pod "tolerations" (concat $pod.tolerations $deployment.tolerations) -}}
  {{- if $isScheduler -}}
    {{- include "cleave.hamiMetrics" (dict "object" .object "of" $deployment) -}}
    {{- include "cleave.kubeScheduler" . -}}
  {{- end -}}
{{- else if eq $kind "DaemonSet" -}}
  {{- include "cleave.workload" (dict "object" .object "values" .values "tag" .tag "of" .values.daemonsets) -}}
  {{- include "cleave.hamiMetrics" (dict "object" .object "of" .values.daemonsets) -}}
  {{- include "cleave.agent" . -}}
{{- end -}}
{{- end -}}

{{- /* The values of the keeper of the webhook's certificate: where it runs, and from which image, is as with the scheduler. */ -}}
{{- define "cleave.keeper" -}}
{{- $own := dict "replicas" 1 "resources" dict "extraArgs" list "extraEnv" list -}}
{{- merge $own (pick . "image" "labels" "annotations" "nodeSelector" "tolerations" "affinity") | toJson -}}
{{- end -}}

{{- define "cleave.annotate" -}}
{{- if .more -}}
  {{- $_ := set .metadata "annotations" (mergeOverwrite (dict) (get .metadata "annotations" | default dict) .more) -}}
{{- end -}}
{{- end -}}

{{- define "cleave.network" -}}
{{- range $rule := .object.spec.ingress -}}
  {{- range $rule.from -}}
    {{- $_ := set .namespaceSelector.matchLabels "kubernetes.io/metadata.name" $.values.networkPolicy.monitoringNamespace -}}
  {{- end -}}
{{- end -}}
{{- range $rule := .object.spec.egress -}}
  {{- range $.values.networkPolicy.apiServerPorts -}}
    {{- $_ := set $rule "ports" (append $rule.ports (dict "port" . "protocol" "TCP")) -}}
  {{- end -}}
{{- end -}}
{{- end -}}

{{- define "cleave.monitoring" -}}
{{- $metadata := .object.metadata -}}
{{- $_ := set $metadata "labels" (mergeOverwrite (dict) $metadata.labels .values.metrics.labels) -}}
{{- range $endpoint := get .object.spec "endpoints" | default list -}}
  {{- with get $endpoint "tlsConfig" -}}
    {{- $_ := set .ca.secret "name" $.values.metrics.tlsSecret -}}
  {{- end -}}
{{- end -}}
{{- end -}}

{{- /* .of is the part of the values that is for the program. */ -}}
{{- define "cleave.hamiMetrics" -}}
{{- $container := first .object.spec.template.spec.containers -}}
{{- if ne .of.hamiMetrics "none" -}}
  {{- $_ := set $container "args" (append $container.args (printf "--hami-metrics=%s" .of.hamiMetrics)) -}}
{{- end -}}
{{- end -}}

{{- /* What is the second container's of cleave-scheduler, which is not one of our images. */ -}}
{{- define "cleave.kubeScheduler" -}}
{{- $of := .values.scheduler.kubeScheduler -}}
{{- range $container := .object.spec.template.spec.containers -}}
  {{- if eq $container.name "kube-scheduler" -}}
    {{- $_ := set $container "image" $of.image -}}
    {{- $_ = set $container "resources" (mergeOverwrite $container.resources $of.resources) -}}
    {{- $_ = set $container "args" (concat $container.args $of.extraArgs) -}}
  {{- end -}}
{{- end -}}
{{- end -}}

{{- /* What our programs have in common: .of is the part of the values that is for them. */ -}}
{{- define "cleave.workload" -}}
{{- $of := .of -}}
{{- $template := .object.spec.template -}}
{{- $pod := $template.spec -}}
{{- $container := first $pod.containers -}}
{{- range $metadata := list .object.metadata $template.metadata -}}
  {{- $_ := set $metadata "labels" (mergeOverwrite (dict) $metadata.labels $of.labels) -}}
  {{- include "cleave.annotate" (dict "metadata" $metadata "more" $of.annotations) -}}
{{- end -}}
{{- with $of.nodeSelector -}}
  {{- $_ := set $pod "nodeSelector" (mergeOverwrite (dict) (get $pod "nodeSelector" | default dict) .) -}}
{{- end -}}
{{- with $of.affinity -}}
  {{- $_ := set $pod "affinity" . -}}
{{- end -}}
{{- range .values.images.pullSecrets -}}
  {{- $_ := set $pod "imagePullSecrets" (append (get $pod "imagePullSecrets" | default list) (dict "name" .)) -}}
{{- end -}}
{{- $_ := set $container "image" (include "cleave.image" (dict "image" $container.image "images" .values.images "tag" .tag "whole" $of.image)) -}}
{{- with .values.images.pullPolicy -}}
  {{- $_ := set $container "imagePullPolicy" . -}}
{{- end -}}
{{- $_ = set $container "resources" (mergeOverwrite $container.resources $of.resources) -}}
{{- $_ = set $container "args" (concat $container.args $of.extraArgs) -}}
{{- range $variable := $of.extraEnv -}}
  {{- include "cleave.variable" (dict "container" $container "variable" $variable) -}}
{{- end -}}
{{- range $volume := get $pod "volumes" | default list -}}
  {{- if eq $volume.name "metrics-tls" -}}
    {{- $_ := set $volume.secret "secretName" $.values.metrics.tlsSecret -}}
  {{- end -}}
{{- end -}}
{{- end -}}

{{- define "cleave.image" -}}
{{- $image := printf "%s:%s" (regexReplaceAll ":[^/]*$" .image "") (.images.tag | default .tag) -}}
{{- with .images.registry -}}
  {{- $image = printf "%s/%s" . $image -}}
{{- end -}}
{{- .whole | default $image -}}
{{- end -}}

{{- /* The last of one name is the one that counts. */ -}}
{{- define "cleave.variable" -}}
{{- $others := list -}}
{{- range .container.env -}}
  {{- if ne .name $.variable.name -}}{{- $others = append $others . -}}{{- end -}}
{{- end -}}
{{- $_ := set .container "env" (append $others .variable) -}}
{{- end -}}

{{- /* What is the agents' alone. */ -}}
{{- define "cleave.agent" -}}
{{- $pod := .object.spec.template.spec -}}
{{- $container := first $pod.containers -}}
{{- with .values.daemonsets.tolerations -}}
  {{- $_ := set $pod "tolerations" . -}}
{{- end -}}
{{- with .values.daemonsets.seLinuxOptions -}}
  {{- $_ := set $pod.securityContext "seLinuxOptions" . -}}
{{- end -}}
{{- $args := list -}}
{{- if ne .values.devicePlugin.resources "kubelet" -}}
  {{- $args = append $args (printf "--resources=%s" .values.devicePlugin.resources) -}}
{{- end -}}
{{- if not .values.cdi.enabled -}}
  {{- $args = append $args "--device-list-strategy=envvar" -}}
{{- end -}}
{{- with .values.mig.strategy -}}
  {{- $args = append $args (printf "--mig-strategy=%s" .) -}}
{{- end -}}
{{- if not .values.metrics.telemetry -}}
  {{- $args = append $args "--telemetry-interval=0" -}}
{{- end -}}
{{- $_ := set $container "args" (concat $container.args $args) -}}
{{- $driver := dict "driver-libraries" .values.driver.libraries "driver-programs" .values.driver.programs -}}
{{- range $volume := $pod.volumes -}}
  {{- with get $driver $volume.name -}}
    {{- $_ := set $volume.hostPath "path" . -}}
  {{- end -}}
  {{- with get $volume "hostPath" -}}
    {{- $_ := set . "path" (regexReplaceAll "^/var/lib/kubelet/" .path (printf "%s/" $.values.kubelet.rootDir)) -}}
  {{- end -}}
{{- end -}}
{{- end -}}
