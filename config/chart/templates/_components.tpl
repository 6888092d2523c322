{{- /* SPDX-License-Identifier: Apache-2.0 */ -}}
{{- /* Which components of config/ the values switch on, as JSON. Their order is that of config/kustomization.yaml. */ -}}
{{- define "cleave.components" -}}
{{- dict
    "slots" .slots.enabled
    "scheduler" .scheduler.enabled
    "scheduler-webhook" .scheduler.webhook.enabled
    "gpushare" .gpushare.enabled
    "gpushare/numbers" .gpushare.numbers
    "koordinator-shares" .koordinatorShares.enabled
    "components/other-nodes" .otherNodes.enabled
    "agent/components/koordlet" .koordlet.enabled
    "agent/components/mps" .mps.enabled
    "monitoring/scrape" .metrics.serviceMonitors
    "monitoring/telemetry" (and .metrics.serviceMonitors .metrics.telemetry)
    "monitoring/rules" .metrics.rules
    "monitoring/dashboards" .metrics.dashboards
    "components/metrics-auth" (eq .metrics.auth "token")
    "components/openshift" .openshift.enabled
    "agent/components/cleave-runtime" .cleaveRuntime.install
    "agent/components/nvidia-runtime" (eq .driver.from "runtimeClass")
    "agent/components/host-driver" (eq .driver.from "host")
  | toJson -}}
{{- end -}}

{{- define "cleave.identity" -}}
{{ .apiVersion }} {{ .kind }} {{ get .metadata "namespace" }}/{{ .metadata.name }}
{{- end -}}

{{- /* Carries out one step of a component (hack/chart.py) on an object: .object, .step. */ -}}
{{- define "cleave.change" -}}
{{- $at := .object -}}
{{- range $part := .step.at -}}
  {{- if kindIs "string" $part -}}
    {{- $at = get $at $part -}}
  {{- else -}}
    {{- range $element := $at -}}
      {{- if eq (get $element $part.key) $part.value -}}{{- $at = $element -}}{{- end -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- $old := get $at .step.key -}}
{{- if eq .step.how "remove" -}}
  {{- $_ := unset $at .step.key -}}
{{- else if eq .step.how "append" -}}
  {{- $_ := set $at .step.key (concat ($old | default list) .step.value) -}}
{{- else if eq .step.how "merge" -}}
  {{- $_ := set $at .step.key (mergeOverwrite ($old | default dict) .step.value) -}}
{{- else -}}
  {{- $_ := set $at .step.key .step.value -}}
{{- end -}}
{{- end -}}
