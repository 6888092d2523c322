{{- /* SPDX-License-Identifier: Apache-2.0 */ -}}
{{- /* Ends the rendering where values, or a release and the cluster, do not go together. values.schema.json refuses what one value alone tells. */ -}}
{{- define "cleave.refuse" -}}
{{- $v := .Values -}}
{{- if and $v.namespaces.create (has .Release.Namespace (list "cleave-system" "cleave-node")) -}}
  {{- fail (printf "the release cannot be in namespace %s, which is one of the two that the chart makes (with labels for Pod Security): use another one, \"-n default\"; or apply config/namespace first and set namespaces.create=false" .Release.Namespace) -}}
{{- end -}}
{{- with lookup "apps/v1" "Deployment" "cleave-system" "cleave-controller" -}}
  {{- $annotations := .metadata.annotations | default dict -}}
  {{- $name := get $annotations "meta.helm.sh/release-name" -}}
  {{- $namespace := get $annotations "meta.helm.sh/release-namespace" -}}
  {{- if and $name (or (ne $name $.Release.Name) (ne $namespace $.Release.Namespace)) -}}
    {{- fail (printf "Cleave is in this cluster already, as release %s of namespace %s. A cluster has one: the nodes, and most of the objects, are the whole cluster's. Upgrade that one (helm upgrade %s -n %s …), or uninstall it first" $name $namespace $name $namespace) -}}
  {{- end -}}
{{- end -}}
{{- range $label := list "app.kubernetes.io/name" "app.kubernetes.io/component" "app.kubernetes.io/part-of" -}}
  {{- if or (hasKey $v.operator.labels $label) (hasKey $v.daemonsets.labels $label) (hasKey $v.scheduler.labels $label) -}}
    {{- fail (printf "operator.labels, daemonsets.labels and scheduler.labels cannot have %s: the chart's selectors look for it" $label) -}}
  {{- end -}}
{{- end -}}
{{- if hasPrefix "sha256:" $v.images.tag -}}
  {{- fail (printf "images.tag cannot be a digest (%s): each image has one of its own. Set operator.image, daemonsets.image and scheduler.image to whole references, \"registry.example/cleave-controller@sha256:…\"" $v.images.tag) -}}
{{- end -}}
{{- if and $v.scheduler.enabled (not $v.slots.enabled) -}}
  {{- fail "scheduler.enabled goes with slots.enabled alone: the agents that make shares come with it, and the policy by which nobody but schedulers chooses a card" -}}
{{- end -}}
{{- if and $v.scheduler.webhook.enabled (not $v.scheduler.enabled) -}}
  {{- fail "scheduler.webhook.enabled goes with scheduler.enabled alone: the scheduler serves the webhook, and gets the pods" -}}
{{- end -}}
{{- if and $v.gpushare.enabled (not $v.scheduler.enabled) -}}
  {{- fail "gpushare.enabled goes with scheduler.enabled alone: the scheduler chooses the cards of gpushare's pods" -}}
{{- end -}}
{{- if and $v.gpushare.numbers (not $v.gpushare.enabled) -}}
  {{- fail "gpushare.numbers goes with gpushare.enabled alone: without its policy pods would be started without a card" -}}
{{- end -}}
{{- if and $v.koordinatorShares.enabled (not $v.slots.enabled) -}}
  {{- fail "koordinatorShares.enabled goes with slots.enabled alone: the agents that make shares come with it" -}}
{{- end -}}
{{- if and (ne $v.daemonsets.hamiMetrics "none") (not $v.metrics.telemetry) -}}
  {{- fail "daemonsets.hamiMetrics goes with metrics.telemetry alone: HAMi's metrics are on the page /metrics/telemetry" -}}
{{- end -}}
{{- if and $v.otherNodes.enabled (ne $v.driver.from "runtimeClass") -}}
  {{- fail "otherNodes.enabled goes with driver.from=runtimeClass alone: otherwise the first DaemonSet has these nodes already" -}}
{{- end -}}
{{- if and (not $v.cdi.enabled) (eq $v.driver.from "host") -}}
  {{- fail "cdi.enabled=false needs NVIDIA's container runtime, which driver.from=host is to do without: enable CDI in the container runtime" -}}
{{- end -}}
{{- if and $v.mps.enabled (ne $v.devicePlugin.resources "kubelet") -}}
  {{- fail "mps.enabled needs devicePlugin.resources=kubelet: a client of MPS gets its pipe from the agent as device plugin" -}}
{{- end -}}
{{- if and $v.mps.enabled (eq $v.driver.from "host") -}}
  {{- fail "mps.enabled needs NVIDIA's container runtime, which brings MPS' daemon into the agent's container: driver.from must be runtime or runtimeClass" -}}
{{- end -}}
{{- if and $v.daemonsets.affinity (or $v.slots.enabled $v.otherNodes.enabled) -}}
  {{- fail "daemonsets.affinity goes neither with slots.enabled nor with otherNodes.enabled: the DaemonSets tell their nodes apart by affinity; use daemonsets.nodeSelector" -}}
{{- end -}}
{{- end -}}
