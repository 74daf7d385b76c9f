{{- define "warmpath.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "warmpath.selector" -}}
app.kubernetes.io/name: warmpath
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "warmpath.labels" -}}
{{ include "warmpath.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- define "warmpath.account" -}}
{{- .Values.serviceAccount.name | default (include "warmpath.name" .) -}}
{{- end -}}

{{- define "warmpath.secret" -}}
{{- .Values.existingSecret | default (include "warmpath.name" .) -}}
{{- end -}}

{{/* The ports, as YAML, of further listeners that config opens: engines and programs come to them from within the cluster. */}}
{{- define "warmpath.further" -}}
{{- $c := .Values.config -}}
{{- $events := dig "kv_events" "listen" "" $c -}}
{{- if $events -}}
{{- $first := int (regexFind "[0-9]+$" $events) -}}
{{- range untilStep $first (add $first (int (dig "kv_events" "listen_ranks" 1 $c)) | int) 1 }}
- port: {{ . }}
{{- end }}
{{- end }}
{{- range list (dig "lease" "listen" "" $c) (dig "trtllm" "cluster" "listen" "" $c) (dig "disaggregation" "notify_listen" "" $c) }}
{{- with regexFind "[0-9]+$" . }}
- port: {{ . }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "warmpath.config" -}}
{{- if not .Values.discovery.kubernetes -}}
{{- fail "discovery.kubernetes is empty: say where the engines are, such as --set discovery.kubernetes[0].service=vllm" -}}
{{- end -}}
{{- $own := dict
  "listen" "0.0.0.0:8080"
  "admin" (dict "listen" "0.0.0.0:9190" "token_file" "/etc/warmpath/secret/admin-token")
  "discovery" (dict "kubernetes" .Values.discovery.kubernetes)
  "peers" (dict "listen" "0.0.0.0:7946" "routers" (list (printf "dns://%s-peers:7946" (include "warmpath.name" .))) "secret_file" "/etc/warmpath/secret/peers")
-}}
{{- if .Values.extproc.enabled -}}
{{- $_ := set $own "extproc" (dict "listen" (printf "0.0.0.0:%d" (int .Values.extproc.port)) "tls" .Values.extproc.tls) -}}
{{- end -}}
{{- toYaml (merge $own (deepCopy .Values.config)) -}}
{{- end -}}
