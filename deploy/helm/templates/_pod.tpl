{{- define "sottovoce.pod" -}}
automountServiceAccountToken: false
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector: {matchLabels: {app: {{ .name }}}}
securityContext:
  runAsNonRoot: true
  runAsUser: {{ .user }}
  runAsGroup: {{ .user }}
  fsGroup: {{ .user }}
  seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "sottovoce.container" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- define "sottovoce.budget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: {{ .name }}}
spec:
  {{ .rule }}: 1
  selector: {matchLabels: {app: {{ .name }}}}
{{- end -}}

{{- define "sottovoce.service" -}}
apiVersion: v1
kind: Service
metadata: {name: {{ .name }}}
spec:
  {{- if eq .name "balancer" }}
  type: LoadBalancer
  externalTrafficPolicy: Local  # rates are counted by the address of the device
  {{- else }}
  clusterIP: None  # the balancer looks up every pod
  {{- end }}
  selector: {app: {{ .name }}}
  ports: [{name: grpc, port: 8471, targetPort: grpc}]
{{- end -}}
