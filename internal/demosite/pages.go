package demosite

import "html/template"

// pages are the templates of the site: index, section and article.
var pages = template.Must(template.New("").Parse(`
{{- define "head" -}}
<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{{.}}</title></head><body>
{{- end -}}

{{- define "index" -}}
{{template "head" "Demo site"}}
<h1>Demo site</h1>
<ul>{{range .}}
<li><a href="/sections/{{.Code}}">{{.Title}}</a> (<a href="{{.Path}}">{{.Format}}</a>, {{.Manner}})</li>{{end}}
</ul></body></html>
{{end -}}

{{- define "section" -}}
{{template "head" .Feed.Title}}
<h1>{{.Feed.Title}}</h1>
<ul>{{range .Page}}
<li><a href="/articles/{{$.Feed.Code}}/{{.Number}}">{{.Title}}</a></li>{{end}}
</ul>
{{with .Older}}<p><a rel="next" href="{{.}}">Older</a></p>{{end}}</body></html>
{{end -}}

{{- define "article" -}}
{{template "head" .Article.Title}}
<article>
<h1>{{.Article.Title}}</h1>
<time datetime="{{.Article.Published.Format "2006-01-02T15:04:05Z07:00"}}">{{.Article.Published.Format "2 January 2006, 15:04:05"}}</time>
{{range .Article.Text}}<p>{{.}}</p>
{{end}}</article>
<p><a href="/sections/{{.Feed.Code}}">{{.Feed.Title}}</a></p></body></html>
{{end -}}

{{- define "slow" -}}
{{template "head" "Slow page"}}
<article><h1>Slow page</h1><p>It took {{.}} seconds.</p></article></body></html>
{{end -}}`))
